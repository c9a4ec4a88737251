"""A small network that learns how far each pixel is from the nearest object, and its data."""

import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

IMAGES = 48
BATCH = 8


def load(side):
    """Images with a few round objects each, and the masks of these objects.

    Args:
        side: Height and width in pixels.
    """
    random = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    masks = np.zeros([IMAGES, side, side], np.uint8)
    for mask in masks:
        for _ in range(4):
            row, column = random.integers(0, side, 2)
            radius = random.integers(side // 16, side // 6)
            mask[(y - row) ** 2 + (x - column) ** 2 < radius**2] = 1
    noise = random.integers(0, 64, [IMAGES, side, side, 3])
    return (noise + 160 * masks[..., None]).astype(np.uint8), masks


def distance_map(mask):
    """How far each pixel is from the nearest pixel of an object, as it is often written."""
    rows, columns = np.nonzero(mask)
    distances = np.zeros(mask.shape, np.float32)
    for y in range(mask.shape[0]):
        for x in range(mask.shape[1]):
            distances[y, x] = np.sqrt(((rows - y) ** 2 + (columns - x) ** 2).min())
    return distances


def train_op(images, distances):
    """One step of the network on a batch.

    Args:
        images: uint8 [batch, side, side, 3].
        distances: float32 [batch, side, side].
    """
    net = tf.cast(images, tf.float32) / 255
    for i, channels in enumerate([16, 16, 1]):
        kernel = tf.get_variable(f"kernel{i}", [3, 3, net.shape[-1], channels])
        net = tf.nn.conv2d(net, kernel, strides=1, padding="SAME")
        net = tf.nn.relu(net) if channels > 1 else net
    loss = tf.reduce_mean(tf.square(net[..., 0] - distances))
    return tf.train.GradientDescentOptimizer(1e-4).minimize(loss), loss


def train(session, fetches, steps, feed=None):
    """Run the steps, and say how many images a second they train on.

    Args:
        session: The session.
        fetches: What `train_op` returned.
        steps: How many.
        feed: Makes the `feed_dict` of a step; None where nothing is fed.
    """
    times = []
    for step in range(steps):
        start = time.perf_counter()
        _, loss = session.run(fetches, feed() if feed else None)
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss:.1f}", flush=True)
    print(f"{BATCH / statistics.median(times[5:] or times):.1f} images/s")
