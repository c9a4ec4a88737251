"""A recurrent model: value_and_grad around lax.scan, all jitted."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def unroll(parameters, sequence):
    def cell(state, x):
        state = jnp.tanh(x @ parameters["input"] + state @ parameters["state"])
        return state, state @ parameters["output"]

    _, outputs = lax.scan(cell, jnp.zeros((sequence.shape[1], 64)), sequence)
    return outputs


def loss_of(parameters, sequence):
    return jnp.mean((unroll(parameters, sequence)[:-1] - sequence[1:]) ** 2)


value_and_gradient = jax.jit(jax.value_and_grad(loss_of))
generator = np.random.default_rng(43)  # each shape of `jax.random` would be compiled
parameters = {
    name: jnp.asarray(scale * generator.standard_normal(shape, np.float32))
    for name, shape, scale in (
        ("input", (16, 64), 0.2),
        ("state", (64, 64), 0.1),
        ("output", (64, 16), 0.2),
    )
}
waves = np.arange(32)[:, None, None] + generator.standard_normal((32, 24, 16))
sequence = jnp.asarray(np.sin(waves), jnp.float32)

losses = []
for _ in range(40):
    loss, gradients = value_and_gradient(parameters, sequence)
    parameters = jax.tree.map(lambda p, g: p - 0.3 * g, parameters, gradients)
    losses.append(float(loss))
print(losses)
