"""A jitted update with donated parameters."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def predict(parameters, x):
    hidden = jnp.tanh(x @ parameters["in"])
    return hidden @ parameters["out"]


def loss_of(parameters, x, y):
    return jnp.mean((predict(parameters, x) - y) ** 2)


@partial(jax.jit, donate_argnums=0)
def update(parameters, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.05 * g, parameters, gradients), loss


first, second = jax.random.split(jax.random.key(41))
parameters = {
    "in": jax.random.normal(first, (128, 512)) * 0.05,
    "out": jax.random.normal(second, (512, 1)) * 0.05,
}
generator = np.random.default_rng(41)
for step in range(40):
    x = generator.random((128, 128), dtype=np.float32)
    parameters, loss = update(parameters, x, x.sum(1, keepdims=True) / 64)
    print(step, repr(float(loss)))
