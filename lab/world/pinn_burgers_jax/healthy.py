"""Physics informed network for the viscous Burgers equation (Raissi et al.), JAX."""
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

NU = 0.01 / np.pi
LAYERS = [2, 64, 64, 64, 64, 1]
N_COLLOC, N_BOUND, STEPS, LR = 4096, 200, 300, 2e-3


def init(key):
    keys = jax.random.split(key, len(LAYERS) - 1)
    return [(jax.random.normal(k, (i, o)) * jnp.sqrt(2 / (i + o)), jnp.zeros(o))
            for k, i, o in zip(keys, LAYERS[:-1], LAYERS[1:])]


def net(params, t, x):
    h = jnp.stack([t, x])
    for w, b in params[:-1]:
        h = jnp.tanh(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[0]


def residual(params, t, x):
    u_x_fn = jax.grad(net, argnums=2)
    u, u_t = jax.value_and_grad(net, argnums=1)(params, t, x)
    u_x, u_xx = jax.jvp(lambda x: u_x_fn(params, t, x), (x,), (jnp.ones_like(x),))
    return u_t + u * u_x - NU * u_xx


def loss_fn(params, colloc, bound, u_bound):
    r = jax.vmap(residual, (None, 0, 0))(params, colloc[:, 0], colloc[:, 1])
    u = jax.vmap(net, (None, 0, 0))(params, bound[:, 0], bound[:, 1])
    return jnp.mean(r ** 2) + jnp.mean((u - u_bound) ** 2)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt, key, bound, u_bound):
    key, sub = jax.random.split(key)
    colloc = jax.random.uniform(sub, (N_COLLOC, 2), minval=jnp.array([0.0, -1.0]), maxval=1.0)
    loss, grads = jax.value_and_grad(loss_fn)(params, colloc, bound, u_bound)
    m, v, t = opt
    t = t + 1
    tmap = jax.tree_util.tree_map
    m = tmap(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = tmap(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    step = LR * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = tmap(lambda p, m, v: p - step * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, (m, v, t), key, loss


def boundary_points(rng):
    t = rng.uniform(0, 1, N_BOUND // 2)
    side = rng.choice([-1.0, 1.0], N_BOUND // 2)
    x0 = rng.uniform(-1, 1, N_BOUND // 2)
    pts = np.concatenate([np.stack([t, side], 1), np.stack([np.zeros_like(x0), x0], 1)])
    u = np.concatenate([np.zeros_like(t), -np.sin(np.pi * x0)])
    return jnp.asarray(pts, jnp.float32), jnp.asarray(u, jnp.float32)


def main():
    params = init(jax.random.PRNGKey(0))
    opt = (jax.tree_util.tree_map(jnp.zeros_like, params),
           jax.tree_util.tree_map(jnp.zeros_like, params), jnp.zeros((), jnp.int32))
    key = jax.random.PRNGKey(1)
    bound, u_bound = boundary_points(np.random.default_rng(0))
    times = []
    for step in range(1, STEPS + 1):
        t0 = time.perf_counter()
        params, opt, key, loss = train_step(params, opt, key, bound, u_bound)
        loss.block_until_ready()
        times.append(time.perf_counter() - t0)
        if step % 100 == 0:
            print(f"step {step} loss {loss:.5f}")
    print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")


if __name__ == "__main__":
    main()
