"""MLP-Mixer on synthetic textures, hand-written AdamW, plain JAX."""
import os

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "320"))
SIDE, PATCH, DIM, BLOCKS, CLASSES, BATCH = 24, 4, 48, 6, 6, 32
TOKENS = (SIDE // PATCH) ** 2


def make_textures(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    g = np.arange(SIDE)
    freq = 0.4 + 0.25 * (y % 3)[:, None, None]
    angle = np.where(y < 3, 0.3, 1.2)[:, None, None] + rng.normal(0, 0.1, (n, 1, 1))
    ramp = g[None, :, None] * np.cos(angle) + g[None, None, :] * np.sin(angle)
    img = np.sin(freq * ramp + rng.uniform(0, 6.28, (n, 1, 1)))
    img = img + 0.8 * rng.standard_normal(img.shape)
    k = SIDE // PATCH
    img = img.reshape(n, k, PATCH, k, PATCH).transpose(0, 1, 3, 2, 4)
    return img.reshape(n, TOKENS, PATCH * PATCH).astype(np.float32), y.astype(np.int32)


def dense(key, din, dout):
    return {"w": jax.random.normal(key, (din, dout)) / np.sqrt(din), "b": jnp.zeros(dout)}


def norm(dim):
    return {"g": jnp.ones(dim), "b": jnp.zeros(dim)}


def init(key):
    keys = iter(jax.random.split(key, 4 * BLOCKS + 2))
    blocks = [{"n1": norm(DIM), "t1": dense(next(keys), TOKENS, 48), "t2": dense(next(keys), 48, TOKENS),
               "n2": norm(DIM), "c1": dense(next(keys), DIM, 96), "c2": dense(next(keys), 96, DIM)}
              for _ in range(BLOCKS)]
    return {"stem": dense(next(keys), PATCH * PATCH, DIM), "blocks": blocks,
            "norm": norm(DIM), "head": dense(next(keys), DIM, CLASSES)}


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def apply_norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def forward(params, x):
    h = apply_dense(params["stem"], x)
    for b in params["blocks"]:
        t = apply_norm(b["n1"], h).swapaxes(1, 2)
        h = h + apply_dense(b["t2"], jax.nn.gelu(apply_dense(b["t1"], t))).swapaxes(1, 2)
        h = h + apply_dense(b["c2"], jax.nn.gelu(apply_dense(b["c1"], apply_norm(b["n2"], h))))
    return apply_dense(params["head"], apply_norm(params["norm"], h).mean(1))


@jax.jit
def loss_and_grads(params, x, y):
    def loss_fn(p):
        logp = jax.nn.log_softmax(forward(p, x))
        return -jnp.take_along_axis(logp, y[:, None], 1).mean()
    return jax.value_and_grad(loss_fn)(params)


def adamw_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}


def adamw_update(params, grads, state, lr=1e-3, b1=0.9, b2=0.999, wd=1e-2):
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["nu"], grads)
    c1, c2 = 1 - b1 ** count, 1 - b2 ** count

    def leaf(p, m, v):
        return p - lr * ((m / c1) / (jnp.sqrt(v / c2) + 1e-8) + wd * p)

    return jax.tree.map(leaf, params, mu, nu), {"mu": mu, "nu": nu, "count": count}


def main():
    x, y = make_textures(4000, 1)
    rng = np.random.default_rng(2)
    params = init(jax.random.key(0))
    state = adamw_init(params)

    losses = []
    for step in range(1, STEPS + 1):
        rows = rng.integers(0, len(x), BATCH)
        loss, grads = loss_and_grads(params, x[rows], y[rows])
        params, state = adamw_update(params, grads, state)
        losses.append(loss)
        if step % 40 == 0 or step == STEPS:
            print(f"step {step} loss {np.mean(jax.device_get(losses)):.4f}", flush=True)
            losses.clear()

    xv, yv = make_textures(512, 3)
    acc = (jax.jit(forward)(params, xv).argmax(-1) == yv).mean()
    print(f"valid accuracy {float(acc):.3f}")


if __name__ == "__main__":
    main()
