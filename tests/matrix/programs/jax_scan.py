"""A recurrent model: value_and_grad around lax.scan, all jitted."""

import jax
import jax.numpy as jnp
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
keys = jax.random.split(jax.random.key(43), 4)
parameters = {
    "input": jax.random.normal(keys[0], (16, 64)) * 0.2,
    "state": jax.random.normal(keys[1], (64, 64)) * 0.1,
    "output": jax.random.normal(keys[2], (64, 16)) * 0.2,
}
sequence = jnp.sin(jnp.arange(32.0)[:, None, None] + jax.random.normal(keys[3], (32, 24, 16)))

losses = []
for _ in range(40):
    loss, gradients = value_and_gradient(parameters, sequence)
    parameters = jax.tree.map(lambda p, g: p - 0.3 * g, parameters, gradients)
    losses.append(float(loss))
print(losses)
