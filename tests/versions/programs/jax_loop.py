"""A JAX loop with two shapes of batches, which reads its loss at the end."""

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 60


@jax.jit
def step(weights, batch):
    def loss(w):
        return jnp.mean((jnp.tanh(batch @ w) @ w.T - batch) ** 2)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 1e-3 * gradient, value


def main():
    weights = jnp.ones((512, 512)) * 1e-3
    for number in range(STEPS):
        rows = 256 if number < 20 else 512
        batch = np.full((rows, 512), number / STEPS, np.float32)
        weights, value = step(weights, batch)
        value.block_until_ready()
    print(float(value))


if __name__ == "__main__":
    main()
