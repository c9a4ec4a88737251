"""Variational autoencoder for blob images in plain JAX; buffers are donated to the step."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class State(NamedTuple):
    params: dict
    m: dict
    v: dict
    t: jax.Array


def blobs(n, size=28, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size][:, None]
    img = np.zeros((n, size, size))
    for _ in range(2):
        cy, cx = rng.uniform(6, 22, (2, n, 1, 1))
        img += np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 8)
    return np.clip(img, 0, 1).reshape(n, -1).astype(np.float32)


def mlp_init(key, dims):
    keys = jax.random.split(key, len(dims) - 1)
    return [
        {"w": jax.random.normal(k, (i, o)) * np.sqrt(2 / i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, dims[:-1], dims[1:])
    ]


def mlp(layers, x):
    for p in layers[:-1]:
        x = jax.nn.relu(x @ p["w"] + p["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def elbo_loss(params, x, key):
    mean, logvar = jnp.split(mlp(params["enc"], x), 2, axis=-1)
    z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(key, mean.shape)
    logits = mlp(params["dec"], z)
    bce = jnp.sum(jax.nn.softplus(logits) - x * logits, axis=-1)
    kl = 0.5 * jnp.sum(jnp.exp(logvar) + mean**2 - 1 - logvar, axis=-1)
    return jnp.mean(bce + kl)


@partial(jax.jit, donate_argnums=0)
def train_step(state, x, key):
    loss, grads = jax.value_and_grad(elbo_loss)(state.params, x, key)
    t = state.t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.v, grads)
    lr = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    params = jax.tree.map(lambda p, m, v: p - lr * m / (jnp.sqrt(v) + 1e-8), state.params, m, v)
    return State(params, m, v, t), loss


def main(steps=300, batch=256, latent=16):
    key = jax.random.PRNGKey(1)
    key, a, b = jax.random.split(key, 3)
    params = {
        "enc": mlp_init(a, [784, 1024, 512, 2 * latent]),
        "dec": mlp_init(b, [latent, 512, 1024, 784]),
    }
    zeros = partial(jax.tree.map, jnp.zeros_like)
    state = State(params, zeros(params), zeros(params), jnp.zeros((), jnp.float32))
    data, rng = blobs(6000), np.random.default_rng(2)
    for step in range(1, steps + 1):
        key, sub = jax.random.split(key)
        state, loss = train_step(state, data[rng.integers(0, len(data), batch)], sub)
        if step % 30 == 0:
            print(f"step {step} loss {float(loss):.2f}")


if __name__ == "__main__":
    main()
