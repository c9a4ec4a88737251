"""A small network in JAX that adds numbers, and its data."""

import jax
import jax.numpy as jnp
import numpy as np

NUMBERS = 16


def batches(batch, steps):
    """Numbers, and the sum of each row."""
    random = np.random.default_rng(0)
    numbers = random.standard_normal([16, batch, NUMBERS]).astype(np.float32)
    sums = numbers.sum(2)
    for step in range(steps):
        yield numbers[step % 16], sums[step % 16]


def init(key, width=128, layers=5):
    """The parameters."""
    sizes = [NUMBERS] + [width] * layers + [1]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {
            "weights": jax.random.normal(k, (n, m)) / n**0.5,
            "bias": jnp.zeros(m),
            "scale": jnp.ones(n),
        }
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params, numbers):
    """Normalise, multiply and activate, layer by layer."""
    hidden = numbers
    for layer in params:
        mean = hidden.mean(axis=1, keepdims=True)
        variance = ((hidden - mean) ** 2).mean(axis=1, keepdims=True)
        normal = layer["scale"] * (hidden - mean) / jnp.sqrt(variance + 1e-5)
        hidden = jnp.tanh(normal @ layer["weights"] + layer["bias"])
    return hidden[:, 0]


def loss_of(params, numbers, sums):
    """Mean squared error."""
    return jnp.mean((predict(params, numbers) - sums) ** 2)
