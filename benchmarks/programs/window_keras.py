"""A custom loop over a tf.function. With 'bare', TensorFlow's profiler watches five steps."""

import sys
import tempfile
import time

import tensorflow as tf
from bare import report, watched

model = tf.keras.Sequential([
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10),
])  # fmt: skip
optimizer = tf.keras.optimizers.SGD(0.01)
images = tf.random.normal([8, 32, 32, 3])


@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(images, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


class Bare:
    def start(self):
        tf.profiler.experimental.start(tempfile.mkdtemp())

    def step(self):
        pass

    def stop(self, _folder):
        tf.profiler.experimental.stop()


report(watched(train, Bare() if "bare" in sys.argv else None, clock=time.perf_counter_ns))
