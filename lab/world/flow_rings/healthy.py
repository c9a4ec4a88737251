"""Flow matching from gaussian noise to interlocked rings."""
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

DIM = 3
WIDTH = 192
BLOCKS = 4
BATCH = 1024
STEPS = 400


def make_rings(n=20000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.uniform(0, 2 * np.pi, n)
    ring = np.stack([np.cos(a), np.sin(a), np.zeros(n)], 1)
    other = np.stack([1 + np.cos(a), np.zeros(n), np.sin(a)], 1)
    pts = np.where(rng.random((n, 1)) < 0.5, ring, other)
    return jnp.asarray(pts + rng.normal(0, 0.05, pts.shape), jnp.float32)


def dense(key, m, n, scale=1.0):
    return {"w": scale * jax.random.normal(key, (m, n)) / np.sqrt(m), "b": jnp.zeros(n)}


def init_params(key):
    k = jax.random.split(key, 2 * BLOCKS + 2)
    blocks = [{"up": dense(k[2 * i], WIDTH, WIDTH), "down": dense(k[2 * i + 1], WIDTH, WIDTH, 0.3)}
              for i in range(BLOCKS)]
    return {"in": dense(k[-2], DIM + 16, WIDTH), "blocks": blocks, "out": dense(k[-1], WIDTH, DIM, 0.1)}


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def velocity(params, x, t):
    freq = 2.0 ** jnp.arange(8)
    clock = t[:, None] * freq
    h = apply(params["in"], jnp.concatenate([x, jnp.sin(clock), jnp.cos(clock)], 1))
    for block in params["blocks"]:
        h = h + apply(block["down"], jax.nn.relu(apply(block["up"], h)))
    return apply(params["out"], h)


def loss_fn(params, x1, key):
    k0, kt = jax.random.split(key)
    x0 = jax.random.normal(k0, x1.shape)
    t = jax.random.uniform(kt, (len(x1),))
    xt = (1 - t[:, None]) * x0 + t[:, None] * x1
    return jnp.mean((velocity(params, xt, t) - (x1 - x0)) ** 2)


@partial(jax.jit, donate_argnums=(0,))
def train_step(state, data):
    key, k_pick, k_loss = jax.random.split(state["key"], 3)
    x1 = data[jax.random.randint(k_pick, (BATCH,), 0, len(data))]
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], x1, k_loss)
    count = state["count"] + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, state["m"], grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, state["v"], grads)
    rate = 1e-3 * jnp.sqrt(1 - 0.99 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), state["params"], m, v)
    return {"params": params, "m": m, "v": v, "count": count, "key": key}, loss


@jax.jit
def sample(params, key):
    def euler(x, t):
        return x + velocity(params, x, jnp.full(len(x), t)) / 50, None
    return jax.lax.scan(euler, jax.random.normal(key, (512, DIM)), jnp.arange(50) / 50)[0]


def main():
    data = make_rings()
    params = init_params(jax.random.key(1))
    state = {"params": params, "m": jax.tree.map(jnp.zeros_like, params),
             "v": jax.tree.map(jnp.zeros_like, params), "count": jnp.zeros(()), "key": jax.random.key(2)}
    start = time.time()
    for step in range(1, STEPS + 1):
        state, loss = train_step(state, data)
        if step % 50 == 0:
            print(f"step {step:4d} loss {float(loss):.4f} time {time.time() - start:.2f}s", flush=True)
    pts = sample(state["params"], jax.random.key(3))
    print("spread of samples", np.round(np.asarray(pts.std(0)), 3))


if __name__ == "__main__":
    main()
