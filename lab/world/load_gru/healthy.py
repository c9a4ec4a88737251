"""Day-ahead electricity load forecasting with a GRU (JAX, lax.scan, hand-written Adam)."""
import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

HISTORY, HORIZON, FEATURES = 96, 24, 6


def make_load(hours, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours, dtype=np.float64)
    temp = 10 + 8 * np.sin(2 * np.pi * t / 8760) + 4 * np.sin(2 * np.pi * (t - 9) / 24)
    temp += np.convolve(rng.normal(0, 1, hours), np.ones(24) / 5, mode="same")
    weekend = ((t // 24) % 7 >= 5).astype(np.float64)
    load = 50 + 12 * np.sin(2 * np.pi * (t - 7) / 24) + 5 * np.sin(4 * np.pi * t / 24)
    load += 0.06 * (temp - 16) ** 2 - 8 * weekend + rng.normal(0, 1.0, hours)
    feats = np.stack([load, temp, weekend, np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24),
                      np.sin(2 * np.pi * t / 168)], axis=1)
    return ((feats - feats.mean(0)) / feats.std(0)).astype(np.float32)


def init_params(key, hidden):
    k = jax.random.split(key, 4)
    return {
        "wx": jax.random.normal(k[0], (FEATURES, 3 * hidden)) / np.sqrt(FEATURES),
        "wh": jax.random.normal(k[1], (hidden, 3 * hidden)) / np.sqrt(hidden),
        "b": jnp.zeros(3 * hidden),
        "w1": jax.random.normal(k[2], (hidden, hidden)) / np.sqrt(hidden),
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(k[3], (hidden, HORIZON)) * 0.1 / np.sqrt(hidden),
        "b2": jnp.zeros(HORIZON),
    }


def forecast(params, x):
    hidden = params["wh"].shape[0]
    gates_x = jnp.swapaxes(x @ params["wx"] + params["b"], 0, 1)

    def cell(h, gx):
        gh = h @ params["wh"]
        rz = jax.nn.sigmoid(gx[:, :2 * hidden] + gh[:, :2 * hidden])
        r, z = jnp.split(rz, 2, axis=1)
        n = jnp.tanh(gx[:, 2 * hidden:] + r * gh[:, 2 * hidden:])
        return (1 - z) * n + z * h, None

    h, _ = jax.lax.scan(cell, jnp.zeros((x.shape[0], hidden), x.dtype), gates_x)
    return jax.nn.relu(h @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_fn(params, x, y):
    err = forecast(params, x) - y
    return jnp.mean(jnp.where(jnp.abs(err) < 1.0, 0.5 * err ** 2, jnp.abs(err) - 0.5))


@partial(jax.jit, donate_argnames=("params", "m", "v"))
def train_step(params, m, v, count, lr, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    c1, c2 = 1 - 0.9 ** count, 1 - 0.999 ** count
    params = jax.tree.map(lambda p, a, b: p - lr * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), params, m, v)
    return params, m, v, loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--hours", type=int, default=30000)
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    feats = make_load(args.hours)
    windows = np.lib.stride_tricks.sliding_window_view(feats, HISTORY, axis=0).transpose(0, 2, 1)
    targets = np.lib.stride_tricks.sliding_window_view(feats[HISTORY:, 0], HORIZON)
    count = len(targets)
    windows = windows[:count]
    split = int(0.9 * count)

    params = init_params(jax.random.PRNGKey(0), args.hidden)
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(1)
    start = time.time()
    for step in range(1, args.steps + 1):
        idx = rng.integers(0, split, args.batch_size)
        lr = args.lr * min(1.0, step / 30)
        params, m, v, loss = train_step(params, m, v, float(step), lr, windows[idx], targets[idx])
        if step % 25 == 0:
            print(f"step {step} loss {float(loss):.4f} elapsed {time.time() - start:.2f}s", flush=True)
    idx = np.arange(split, count, 13)[:256]
    print(f"holdout loss {float(loss_fn(params, windows[idx], targets[idx])):.4f}")


if __name__ == "__main__":
    main()
