"""A classifier of bags of words, and its data."""

import numpy as np
import tensorflow.compat.v1 as tf

WORDS = 256
BATCH = 128


def batches(topics, steps):
    """For each step, words and topics; [steps, BATCH, WORDS] and [steps, BATCH].

    Args:
        topics: How many topics there are.
        steps: How many steps.
    """
    random = np.random.default_rng(0)
    likely = random.gamma(0.5, size=[topics, WORDS])
    chosen = random.integers(0, topics, [steps, BATCH], np.int32)
    return random.poisson(likely[chosen]).astype(np.float32), chosen


def build(topics):
    """Placeholders of a batch, the update, and the mean loss of each topic; [topics]."""
    bags = tf.placeholder(tf.float32, [BATCH, WORDS])
    labels = tf.placeholder(tf.int32, [BATCH])
    hidden = tf.nn.relu(tf.log1p(bags) @ tf.get_variable("inner", [WORDS, 64]))
    logits = hidden @ tf.get_variable("outer", [64, topics])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(losses))
    return bags, labels, train, tf.math.unsorted_segment_mean(losses, labels, topics)
