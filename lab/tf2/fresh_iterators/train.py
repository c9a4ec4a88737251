"""Trains a small network on images that are brightened at random, from a shuffled data set."""

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf

CLASSES = 10
SIZE = 24


def make_images(count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, count)
    patterns = rng.uniform(0, 200, [CLASSES, SIZE, SIZE, 3])
    images = patterns[labels] + rng.uniform(0, 55, [count, SIZE, SIZE, 3])
    return images.astype(np.uint8), labels.astype(np.int32)


def augment(image, label):
    image = tf.cast(image, tf.float32) / 255
    return tf.image.random_brightness(tf.image.random_flip_left_right(image), 0.2), label


class Images:
    """Shuffled batches of augmented images."""

    def __init__(self, count, batch, fresh):
        self.dataset = (
            tf.data.Dataset.from_tensor_slices(make_images(count))
            .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(512)
            .repeat()
            .batch(batch)
            .prefetch(2)
        )
        self.batches = None if fresh else iter(self.dataset)

    def next_batch(self):
        return next(iter(self.dataset)) if self.batches is None else next(self.batches)


class Classifier(tf.Module):
    def __init__(self, width):
        super().__init__()
        self.kernel = tf.Variable(tf.random.normal([5, 5, 3, width], stddev=0.1))
        self.hidden = tf.Variable(tf.random.normal([width * 16, 256], stddev=0.05))
        self.head = tf.Variable(tf.random.normal([256, CLASSES], stddev=0.05))

    def logits(self, images):
        net = tf.nn.relu(tf.nn.conv2d(images, self.kernel, 3, "SAME"))
        net = tf.reshape(tf.nn.max_pool2d(net, 2, 2, "VALID"), [len(images), -1])
        return tf.nn.relu(net @ self.hidden) @ self.head

    @tf.function
    def train_step(self, images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self.logits(images))
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(
            self.trainable_variables, tape.gradient(loss, self.trainable_variables), strict=True
        ):
            variable.assign_sub(0.05 * gradient)
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--batches", choices=["fresh", "lasting"], default="fresh")
    options = parser.parse_args()

    tf.random.set_seed(0)
    images, model, times = (
        Images(options.images, 64, options.batches == "fresh"),
        Classifier(32),
        [],
    )
    for step in range(options.steps):
        start = time.perf_counter()
        loss = model.train_step(*images.next_batch())
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.numpy():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
