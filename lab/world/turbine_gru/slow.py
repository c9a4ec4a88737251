"""Remaining useful life of turbines from multi-sensor sequences, GRU written in JAX."""
import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--sensors", type=int, default=288)
    p.add_argument("--length", type=int, default=80)
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--steps", type=int, default=350)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=13)
    return p.parse_args()


def make_units(args, n=1200):
    rng = np.random.default_rng(args.seed)
    wear = np.cumsum(rng.gamma(1.0, 0.01, (n, args.length)), axis=1).astype(np.float32)
    mix = rng.standard_normal((4, args.sensors)).astype(np.float32)
    t = np.arange(args.length, dtype=np.float32)
    waves = np.sin(t[None] / rng.uniform(3, 12, (n, 1))).astype(np.float32)
    base = np.stack([wear, wear ** 2, waves, waves * wear], axis=-1)
    x = base @ mix + 0.5 * rng.standard_normal((n, args.length, args.sensors)).astype(np.float32)
    y = 1.0 - wear[:, -1] / wear[:, -1].max()
    return x.astype(np.float32), y.astype(np.float32)


def init_params(args):
    rng = np.random.default_rng(args.seed + 1)

    def mat(a, b):
        return jnp.asarray(rng.standard_normal((a, b)) / np.sqrt(a), jnp.float32)

    h = args.hidden
    return {"wx": mat(args.sensors, 3 * h), "wh": mat(h, 3 * h), "bx": jnp.zeros(3 * h),
            "w1": mat(h, 64), "b1": jnp.zeros(64), "w2": mat(64, 1), "b2": jnp.zeros(1)}


def encode(params, x):
    """x: batch, time, sensors. Returns the last hidden state."""
    hidden = params["wh"].shape[0]

    def cell(h, x_t):
        gx = x_t @ params["wx"] + params["bx"]
        gh = h @ params["wh"]
        rx, ux, nx = jnp.split(gx, 3, axis=-1)
        rh, uh, nh = jnp.split(gh, 3, axis=-1)
        r = jax.nn.sigmoid(rx + rh)
        u = jax.nn.sigmoid(ux + uh)
        n = jnp.tanh(nx + r * nh)
        return (1.0 - u) * n + u * h, None

    h0 = jnp.zeros((x.shape[0], hidden))
    inputs = jnp.swapaxes(x, 0, 1)
    last, _ = jax.lax.scan(cell, h0, inputs)
    return last


def loss_fn(params, x, y):
    h = encode(params, x)
    z = jax.nn.relu(h @ params["w1"] + params["b1"])
    pred = (z @ params["w2"] + params["b2"])[:, 0]
    return jnp.mean((pred - y) ** 2)


@jax.jit
def train_step(params, state, x, y, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    grads = jax.tree.map(lambda g: g * scale, grads)
    count = state["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["nu"], grads)
    c1, c2 = 1 - 0.9 ** count, 1 - 0.999 ** count
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}, loss


def main():
    args = get_args()
    x, y = make_units(args)
    params = init_params(args)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"mu": zeros, "nu": zeros, "count": jnp.zeros(())}
    rng = np.random.default_rng(args.seed + 2)
    start = time.time()
    for step in range(args.steps):
        idx = rng.integers(0, len(x), args.batch_size)
        params, state, loss = train_step(params, state, x[idx], y[idx], args.lr)
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:4d} mse {float(loss):.5f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
