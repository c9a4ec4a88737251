"""A network that predicts the next value of a series, and its data."""

import numpy as np
import tensorflow as tf

WINDOW = 32


def batches(batch, steps):
    """Windows of noisy waves, and the value after each."""
    random = np.random.default_rng(0)
    for _ in range(steps):
        phase, speed = random.random([2, batch, 1])
        waves = np.sin(6 * phase + (0.1 + speed) * np.arange(WINDOW + 1))
        noisy = (waves + 0.1 * random.standard_normal(waves.shape)).astype(np.float32)
        yield tf.constant(noisy[:, :WINDOW]), tf.constant(noisy[:, WINDOW:])


class Predictor(tf.Module):
    """A stack of gated layers with a normalisation each."""

    def __init__(self, width=64, layers=6):
        super().__init__()
        random = tf.random.Generator.from_seed(0)

        def weights(rows, columns):
            return tf.Variable(random.normal([rows, columns], stddev=rows**-0.5))

        self.input = weights(WINDOW, width)
        self.values = [weights(width, width) for _ in range(layers)]
        self.gates = [weights(width, width) for _ in range(layers)]
        self.scales = [tf.Variable(tf.ones([width])) for _ in range(layers)]
        self.output = weights(width, 1)

    def __call__(self, windows):
        hidden = windows @ self.input
        for values, gates, scale in zip(self.values, self.gates, self.scales, strict=True):
            mean, variance = tf.nn.moments(hidden, axes=[1], keepdims=True)
            inner = scale * (hidden - mean) * tf.math.rsqrt(variance + 1e-5)
            hidden += tf.tanh(inner @ values) * tf.sigmoid(inner @ gates)
        return hidden @ self.output
