"""A table of word vectors that is trained on pairs of words, and its data."""

import numpy as np
import tensorflow.compat.v1 as tf

LENGTH = 128
BATCH = 256


def pairs(words, steps):
    """For each step, words and their neighbours; [steps, 2, BATCH].

    Args:
        words: How many there are.
        steps: How many steps.
    """
    return np.random.default_rng(0).integers(0, words, [steps, 2, BATCH], np.int32)


def build(words):
    """The table, and one step on a batch of pairs.

    Args:
        words: How many there are.
    """
    table = tf.get_variable("table", [words, LENGTH], use_resource=False)
    pair = tf.placeholder(tf.int32, [2, BATCH])
    left, right = (tf.nn.embedding_lookup(table, pair[i]) for i in range(2))
    logits = tf.matmul(left, right, transpose_b=True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(BATCH), logits=logits)
    loss = tf.reduce_mean(losses)
    return table, pair, tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss
