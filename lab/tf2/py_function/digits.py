"""A small image classifier, its data and its training loop."""

import statistics
import time

import numpy as np
import tensorflow as tf

SIDE = 28
CLASSES = 10


def batches(batch, steps):
    """Random images with a label each."""
    random = np.random.default_rng(0)
    images = tf.constant(random.random([2048, SIDE, SIDE, 1], dtype=np.float32))
    labels = tf.constant(random.integers(0, CLASSES, 2048, np.int32))
    for step in range(steps):
        start = step * batch % (2048 - batch + 1)
        yield images[start : start + batch], labels[start : start + batch]


def model_of(width=8):
    """Two convolutions and a linear layer."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input([SIDE, SIDE, 1]),
            layers.Conv2D(width, 5, strides=3, activation="relu"),
            layers.Conv2D(2 * width, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(CLASSES),
        ]
    )


class Trainer:
    """Trains with soft labels.

    Args:
        soften: Function of labels and logits that returns the weight of each class.
    """

    def __init__(self, soften):
        self.model = model_of()
        self.optimizer = tf.keras.optimizers.SGD(0.01)
        self.soften = soften

    @tf.function
    def train_step(self, images, labels):
        """One step of gradient descent."""
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            targets = self.soften(labels, tf.stop_gradient(logits))
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


def train(soften, batch, steps):
    """Train, and print the median step."""
    trainer, times = Trainer(soften), []
    start = time.perf_counter()
    for step, (images, labels) in enumerate(batches(batch, steps)):
        loss = trainer.train_step(images, labels)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 20 == 0:
            print(f"step {step:3d}  loss {float(loss):.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
