"""GRU over simulated ECG with lax.scan; momentum SGD, warm-up, clipped gradients."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def heartbeats(n, length=64, leads=4, seed=0):
    """Class 0 regular, 1 fast, 2 skipping beats."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    t = np.arange(length)
    period = np.where(y == 1, 11, 19)[:, None] + rng.normal(0, 0.7, (n, 1))
    phase = (t + rng.uniform(0, 20, (n, 1))) / period
    beat = np.exp(-(((phase % 1) - 0.5) ** 2) / 0.004)
    skip = (y == 2)[:, None] & (np.floor(phase) % 3 == 0)
    beat = np.where(skip, 0.0, beat)
    gain = rng.uniform(0.5, 1.5, (n, 1, leads))
    x = beat[:, :, None] * gain + 0.15 * rng.standard_normal((n, length, leads))
    return x.astype(np.float32), y.astype(np.int32)


def init(key, leads, hidden, classes):
    k = jax.random.split(key, 3)
    bound = hidden**-0.5
    uniform = lambda key, shape: jax.random.uniform(key, shape, minval=-bound, maxval=bound)
    return {
        "wi": uniform(k[0], (leads, 3 * hidden)),
        "wh": uniform(k[1], (hidden, 3 * hidden)),
        "b": jnp.zeros(3 * hidden),
        "out": uniform(k[2], (hidden, classes)),
    }


def gru(params, x):
    hidden = params["wh"].shape[0]
    inputs = jnp.swapaxes(x @ params["wi"] + params["b"], 0, 1)

    def cell(h, xi):
        xr, xz, xn = jnp.split(xi, 3, axis=-1)
        hr, hz, hn = jnp.split(h @ params["wh"], 3, axis=-1)
        z = jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = (1 - z) * n + z * h
        return h, h

    _, hs = jax.lax.scan(cell, jnp.zeros((x.shape[0], hidden)), inputs)
    return hs.mean(axis=0) @ params["out"]


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(gru(params, x))
    return -jnp.take_along_axis(logp, y[:, None], axis=1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, velocity, x, y, step):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    lr = 0.3 * jnp.minimum(1.0, step / 20)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + scale * g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


@jax.jit
def accuracy(params, x, y):
    return (gru(params, x).argmax(-1) == y).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=275)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--hidden", type=int, default=128)
    args = p.parse_args()
    x, y = heartbeats(4000)
    xt, yt = map(jnp.asarray, heartbeats(500, seed=1))
    params = init(jax.random.PRNGKey(3), x.shape[-1], args.hidden, 3)
    velocity = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(4)
    for step in range(1, args.steps + 1):
        pick = rng.integers(0, len(y), args.batch)
        params, velocity, loss = train_step(params, velocity, x[pick], y[pick], np.float32(step))
        if step % 25 == 0:
            print(f"step {step} loss {float(loss):.4f}")
        if step % 200 == 0:
            print(f"test accuracy {float(accuracy(params, xt, yt)):.3f}")


if __name__ == "__main__":
    main()
