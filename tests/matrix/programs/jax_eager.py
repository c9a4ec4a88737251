"""A jitted gradient and an optimizer that is not jitted."""

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def gradient_of(weights, x, labels):
    def loss_of(weights):
        logits = jax.nn.log_softmax(x @ weights)
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], axis=1))

    return jax.value_and_grad(loss_of)(weights)


class Momentum:
    def __init__(self, rate):
        self.rate = rate
        self.velocity = 0.0

    def update(self, weights, gradient):
        self.velocity = 0.9 * self.velocity + gradient
        return weights - self.rate * self.velocity


generator = np.random.default_rng(44)
weights = jnp.zeros((300, 10))
optimizer = Momentum(0.1)
for step in range(40):
    x = generator.random((256, 300), dtype=np.float32)
    loss, gradient = gradient_of(weights, x, jnp.argmax(x[:, :10], axis=1))
    weights = optimizer.update(weights, gradient)
    print(step, loss)
