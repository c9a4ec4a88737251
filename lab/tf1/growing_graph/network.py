"""A small image classifier and its data, as the programs of this folder train it."""

import numpy as np
import tensorflow.compat.v1 as tf

IMAGES = 512
BATCH = 32
SIDE = 24
CLASSES = 10


def load():
    """Random images and labels."""
    random = np.random.default_rng(0)
    images = random.random([IMAGES, SIDE, SIDE, 3], np.float32)
    return images, random.integers(0, CLASSES, IMAGES, np.int32)


def batch_of(images, labels, step):
    """The images and labels of one step."""
    first = step * BATCH % IMAGES
    return images[first : first + BATCH], labels[first : first + BATCH]


def logits_of(images):
    """Four convolutions and a classifier."""
    net = images
    for i, channels in enumerate([16, 32, 32, 64]):
        kernel = tf.get_variable(f"kernel{i}", [3, 3, net.shape[-1], channels])
        net = tf.nn.relu(tf.nn.conv2d(net, kernel, strides=2 if i % 2 else 1, padding="SAME"))
    net = tf.reduce_mean(net, axis=[1, 2])
    weights = tf.get_variable("weights", [net.shape[-1], CLASSES])
    return tf.matmul(net, weights)


def loss_of(logits, labels):
    """Mean cross entropy."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def accuracy_of(logits, labels):
    """Share of the batch that is classified right."""
    right = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
    return tf.reduce_mean(tf.cast(right, tf.float32))
