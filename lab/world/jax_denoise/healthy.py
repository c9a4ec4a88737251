"""Small denoising network on 1-D profiles. Everything in a step is one jitted call."""

import functools
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LENGTH, WIDTH, LAYERS, BATCH, STEPS = 96, 320, 4, 320, 120
tree_map = jax.tree_util.tree_map


class State(NamedTuple):
    params: dict
    mu: dict
    nu: dict
    ema: dict
    key: jax.Array
    step: jax.Array
    loss_sum: jax.Array
    psnr_sum: jax.Array


def init(key):
    sizes = [LENGTH] + [WIDTH] * LAYERS + [LENGTH]
    params = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        key, k = jax.random.split(key)
        params[f"w{i}"] = jax.random.normal(k, (a, b)) * (2 / a) ** 0.5
        params[f"b{i}"] = jnp.zeros((b,))
    zeros = lambda: tree_map(jnp.zeros_like, params)
    z = lambda: jnp.zeros(())
    return State(
        params,
        zeros(),
        zeros(),
        tree_map(jnp.copy, params),
        key,
        jnp.zeros((), jnp.int32),
        z(),
        z(),
    )


def denoise(params, x):
    n = len(params) // 2
    h = x
    for i in range(n - 1):
        h = jax.nn.relu(h @ params[f"w{i}"] + params[f"b{i}"])
    return x + h @ params[f"w{n - 1}"] + params[f"b{n - 1}"]


def loss_fn(params, clean, noisy):
    return jnp.mean((denoise(params, noisy) - clean) ** 2)


def clip(grads, limit=1.0):
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree_util.tree_leaves(grads)))
    return tree_map(lambda g: g * jnp.minimum(1.0, limit / (norm + 1e-9)), grads)


def schedule(step, peak=1e-3, warm=20):
    t = step.astype(jnp.float32)
    return peak * jnp.minimum((t + 1) / warm, 0.5 + 0.5 * jnp.cos(jnp.pi * t / STEPS))


@functools.partial(jax.jit, donate_argnums=0)
def step_fn(state, data):
    key, k_idx, k_noise = jax.random.split(state.key, 3)
    clean = data[jax.random.randint(k_idx, (BATCH,), 0, data.shape[0])]
    noisy = clean + 0.3 * jax.random.normal(k_noise, clean.shape)
    loss, grads = jax.value_and_grad(loss_fn)(state.params, clean, noisy)
    grads = clip(grads)
    t = state.step + 1
    mu = tree_map(lambda m, g: 0.9 * m + 0.1 * g, state.mu, grads)
    nu = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, state.nu, grads)
    lr = schedule(state.step)
    c1, c2 = 1 - 0.9**t, 1 - 0.999**t
    params = tree_map(
        lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), state.params, mu, nu
    )
    ema = tree_map(lambda e, p: 0.98 * e + 0.02 * p, state.ema, params)
    return State(
        params, mu, nu, ema, key, t, state.loss_sum + loss, state.psnr_sum - 10 * jnp.log10(loss)
    )


def reset_metrics(state):
    return state._replace(loss_sum=jnp.zeros(()), psnr_sum=jnp.zeros(()))


def profiles(n, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, LENGTH)
    centre = rng.uniform(0.1, 0.9, (n, 3, 1))
    width = rng.uniform(0.02, 0.15, (n, 3, 1))
    height = rng.uniform(0.3, 1.5, (n, 3, 1))
    return (height * np.exp(-(((t - centre) / width) ** 2))).sum(1).astype(np.float32)


def main():
    data = jax.device_put(profiles(4000))
    state = init(jax.random.PRNGKey(0))
    times, every = [], 20
    for i in range(STEPS):
        start = time.perf_counter()
        state = step_fn(state, data)
        state.loss_sum.block_until_ready()
        times.append(time.perf_counter() - start)
        if (i + 1) % every == 0:
            print(
                f"step {i + 1} loss {float(state.loss_sum) / every:.4f}"
                f" psnr {float(state.psnr_sum) / every:.2f}"
            )
            state = reset_metrics(state)
    print(f"median step {1e3 * np.median(times[10:]):.2f} ms")


if __name__ == "__main__":
    main()
