"""Physics-informed network for the 2-D heat equation with a travelling source, in JAX."""
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "1000"))
ALPHA = 0.05
LAYERS = (3, 48, 48, 48, 48, 1)
INTERIOR, BOUNDARY, INITIAL = 512, 128, 128


def exact(t, x, y):
    return np.exp(-t) * np.sin(np.pi * x) * np.sin(np.pi * y)


def source(t, x, y):
    base = jnp.exp(-t) * jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
    return (2 * ALPHA * jnp.pi ** 2 - 1.0) * base


def init_params(key):
    params = []
    for d_in, d_out in zip(LAYERS[:-1], LAYERS[1:]):
        key, sub = jax.random.split(key)
        scale = jnp.sqrt(2.0 / (d_in + d_out))
        params.append({"w": scale * jax.random.normal(sub, (d_in, d_out)), "b": jnp.zeros(d_out)})
    return params


def network(params, t, x, y):
    h = jnp.stack([t, 2 * x - 1, 2 * y - 1])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def residual(params, t, x, y):
    u_t = jax.grad(network, 1)(params, t, x, y)
    u_xx = jax.grad(jax.grad(network, 2), 2)(params, t, x, y)
    u_yy = jax.grad(jax.grad(network, 3), 3)(params, t, x, y)
    return u_t - ALPHA * (u_xx + u_yy) - source(t, x, y)


batched_net = jax.vmap(network, (None, 0, 0, 0))
batched_res = jax.vmap(residual, (None, 0, 0, 0))


def loss_fn(params, batch):
    inside, edge, first, first_u = batch
    r = batched_res(params, *inside)
    wall = batched_net(params, *edge)
    begin = batched_net(params, *first) - first_u
    return jnp.mean(r ** 2) + 10 * jnp.mean(wall ** 2) + 10 * jnp.mean(begin ** 2)


value_and_grad = jax.jit(jax.value_and_grad(loss_fn))


def init_adam(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"m": zeros, "v": zeros, "count": 0}


@jax.jit
def adam_update(params, grads, state, lr=2e-3, b1=0.9, b2=0.999, eps=1e-8):
    count = state["count"] + 1
    norm = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree.leaves(grads)))
    clip = jnp.minimum(1.0, 5.0 / (norm + 1e-6))
    grads = jax.tree.map(lambda g: g * clip, grads)
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    c1, c2 = 1 - b1 ** count, 1 - b2 ** count
    params = jax.tree.map(
        lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, m, v)
    return params, {"m": m, "v": v, "count": count}


def sample_batch(rng):
    inside = tuple(rng.random((3, INTERIOR), dtype=np.float32))
    edge = rng.random((3, BOUNDARY), dtype=np.float32)
    side = rng.integers(0, 4, BOUNDARY)
    edge[1 + side // 2, np.arange(BOUNDARY)] = side % 2
    first = rng.random((3, INITIAL), dtype=np.float32)
    first[0] = 0.0
    return inside, tuple(edge), tuple(first), exact(*first).astype(np.float32)


def main():
    rng = np.random.default_rng(0)
    params = init_params(jax.random.PRNGKey(0))
    state = init_adam(params)

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        loss, grads = value_and_grad(params, sample_batch(rng))
        params, state = adam_update(params, grads, state)
        if step % 100 == 0:
            print(f"step {step:4d}  loss {float(loss):.5f}", flush=True)
    jax.block_until_ready(params)
    elapsed = time.perf_counter() - start

    grid = np.random.default_rng(5).random((3, 2000), dtype=np.float32)
    error = np.asarray(batched_net(params, *grid)) - exact(*grid)
    print(f"final loss {float(loss):.5f}  rmse {np.sqrt((error ** 2).mean()):.4f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
