"""Variational autoencoder on stroke images, in JAX with a hand-written Adam."""
import os
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "1000"))
SIDE = 24
PIXELS = SIDE * SIDE
LATENT, HIDDEN, BATCH = 12, 400, 128


def make_strokes(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:1:SIDE * 1j, 0:1:SIDE * 1j]
    points = rng.uniform(0.15, 0.85, (n, 3, 2))
    s = np.linspace(0, 1, 14)[:, None]
    weights = np.concatenate([(1 - s) ** 2, 2 * s * (1 - s), s ** 2], axis=1)
    curve = np.einsum("sk,nkd->nsd", weights, points)
    images = np.zeros((n, SIDE, SIDE), np.float32)
    for i in range(curve.shape[1]):
        dx = xx - curve[:, i, 0, None, None]
        dy = yy - curve[:, i, 1, None, None]
        np.maximum(images, np.exp(-(dx ** 2 + dy ** 2) / 0.003), out=images)
    return images.reshape(n, PIXELS)


def dense_init(key, d_in, d_out):
    return {"w": jax.random.normal(key, (d_in, d_out)) * np.sqrt(2.0 / d_in),
            "b": jnp.zeros(d_out)}


def init_params(key):
    shapes = {"e1": (PIXELS, HIDDEN), "e2": (HIDDEN, HIDDEN), "mean": (HIDDEN, LATENT),
              "logvar": (HIDDEN, LATENT), "d1": (LATENT, HIDDEN), "d2": (HIDDEN, HIDDEN),
              "out": (HIDDEN, PIXELS)}
    keys = jax.random.split(key, len(shapes))
    return {name: dense_init(k, *shape) for k, (name, shape) in zip(keys, shapes.items())}


def dense(layer, x):
    return x @ layer["w"] + layer["b"]


def encode(params, x):
    h = jax.nn.relu(dense(params["e1"], x))
    h = jax.nn.relu(dense(params["e2"], h))
    return dense(params["mean"], h), 0.1 * dense(params["logvar"], h)


def decode(params, z):
    h = jax.nn.relu(dense(params["d1"], z))
    h = jax.nn.relu(dense(params["d2"], h))
    return dense(params["out"], h)


def loss_fn(params, key, x):
    mean, logvar = encode(params, x)
    z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape)
    logits = decode(params, z)
    nll = (jax.nn.softplus(logits) - x * logits).sum(axis=1)
    kl = 0.5 * (jnp.exp(logvar) + mean ** 2 - 1 - logvar).sum(axis=1)
    return (nll + kl).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt, key, images, idx):
    key, sub = jax.random.split(key)
    loss, grads = jax.value_and_grad(loss_fn)(params, sub, images[idx])
    count = opt["count"] + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["m"], grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["v"], grads)
    scale = 1e-3 * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, {"m": m, "v": v, "count": count}, key, loss


@jax.jit
def evaluate(params, key, images):
    return loss_fn(params, key, images)


def main():
    images = jnp.asarray(make_strokes(6000, seed=0))
    heldout = jnp.asarray(make_strokes(500, seed=1))
    rng = np.random.default_rng(3)
    params = init_params(jax.random.PRNGKey(0))
    opt = {"m": jax.tree.map(jnp.zeros_like, params),
           "v": jax.tree.map(jnp.zeros_like, params), "count": jnp.zeros((), jnp.int32)}
    key = jax.random.PRNGKey(1)

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        idx = rng.integers(0, len(images), BATCH)
        params, opt, key, loss = train_step(params, opt, key, images, idx)
        if step % 100 == 0:
            print(f"step {step:4d}  loss {float(loss):.3f}", flush=True)
    final = float(loss)
    elapsed = time.perf_counter() - start
    val = float(evaluate(params, jax.random.PRNGKey(2), heldout))
    print(f"final loss {final:.3f}  held-out loss {val:.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
