"""A recurrent classifier of reviews, and reviews of different lengths."""

import statistics
import time

import numpy as np
import tensorflow as tf

WORDS = 2000
REVIEWS = 4096
SHORTEST, LONGEST = 20, 120


class Classifier(tf.Module):
    """Embeds the words, passes them through a stack of layers, and averages over the review."""

    def __init__(self, width=64, layers=6):
        super().__init__()
        random = tf.random.Generator.from_seed(0)
        self.embedding = tf.Variable(random.normal([WORDS, width], stddev=0.1))
        self.layers = [
            tf.Variable(random.normal([width, width], stddev=0.1)) for _ in range(layers)
        ]
        self.scales = [tf.Variable(tf.ones([width])) for _ in range(layers)]
        self.output = tf.Variable(random.normal([width, 2], stddev=0.1))

    def __call__(self, words):
        hidden = tf.nn.embedding_lookup(self.embedding, words)
        for weights, scale in zip(self.layers, self.scales, strict=True):
            inner = tf.nn.gelu(tf.einsum("btc,cd->btd", hidden, weights))
            hidden = scale * (hidden + inner) / tf.norm(hidden + inner, axis=-1, keepdims=True)
        known = tf.cast(words > 0, tf.float32)[:, :, None]
        mean = tf.reduce_sum(hidden * known, axis=1) / tf.reduce_sum(known, axis=1)
        return mean @ self.output


def batches(batch, steps):
    """Reviews padded to the longest of each batch, with their labels."""
    random = np.random.default_rng(0)
    for _ in range(steps):
        lengths = random.integers(SHORTEST, LONGEST, batch)
        words = random.integers(1, WORDS, [batch, lengths.max()], np.int32)
        words[np.arange(lengths.max()) >= lengths[:, None]] = 0
        yield words, random.integers(0, 2, batch, np.int32)


def train(train_step, batch, steps):
    """Train, and print the median step."""
    times = []
    for step, (words, labels) in enumerate(batches(batch, steps)):
        start = time.perf_counter()
        loss = train_step(tf.constant(words), tf.constant(labels))
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {float(loss):.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
