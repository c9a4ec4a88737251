"""Convolutional tagger for product reviews (tokens drawn from a topic model)."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

VOCAB = 50000
TAGS = 10
LENGTH = 48
WIDTH = 64
BATCH = 64
STEPS = 400


class ReviewCorpus:
    def __init__(self, n=4000, seed=13):
        self.rng = np.random.RandomState(seed)
        self.tags = self.rng.randint(0, TAGS, n)
        common = self.rng.zipf(1.3, (n, LENGTH)) % (VOCAB // 2) + 1
        topical = VOCAB // 2 + self.tags[:, None] * 2000 + self.rng.randint(0, 2000, (n, LENGTH))
        tokens = np.where(self.rng.rand(n, LENGTH) < 0.35, topical, common)
        lengths = self.rng.randint(15, LENGTH + 1, n)
        tokens[np.arange(LENGTH)[None] >= lengths[:, None]] = 0
        self.tokens = tokens.astype(np.int32)

    def batches(self, size):
        while True:
            order = self.rng.permutation(len(self.tags))
            for i in range(0, len(order) - size + 1, size):
                pick = order[i:i + size]
                yield self.tokens[pick], self.tags[pick]


def embed(tokens):
    """Word vectors; the padding token 0 is the zero vector."""
    table = tf.get_variable("table", [VOCAB, WIDTH], initializer=tf.random_normal_initializer(0, 0.1))
    table = tf.concat([tf.zeros([1, WIDTH]), table[1:]], axis=0)
    return tf.nn.embedding_lookup(table, tokens)


def conv_block(x, name, filters, size):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [size, int(x.shape[-1]), filters])
        b = tf.get_variable("b", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv1d(x, w, stride=1, padding="SAME") + b)


def build_model(tokens, tags):
    x = embed(tokens)
    parts = [tf.reduce_max(conv_block(x, "conv%d" % k, 64, k), axis=1) for k in (2, 3, 4)]
    h = tf.concat(parts, axis=1)
    w = tf.get_variable("out_w", [int(h.shape[1]), TAGS])
    b = tf.get_variable("out_b", [TAGS], initializer=tf.zeros_initializer())
    logits = tf.matmul(h, w) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits))
    hits = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), tags), tf.float32))
    return loss, hits


def build_graph():
    tf.set_random_seed(13)
    tokens = tf.placeholder(tf.int32, [None, LENGTH], "tokens")
    tags = tf.placeholder(tf.int32, [None], "tags")
    loss, hits = build_model(tokens, tags)
    optimizer = tf.train.AdagradOptimizer(0.08)
    train = optimizer.minimize(loss)
    return tokens, tags, loss, hits, train


def main():
    corpus = ReviewCorpus()
    tokens, tags, loss, hits, train = build_graph()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step, (x, y) in enumerate(corpus.batches(BATCH), 1):
            value, acc, _ = sess.run([loss, hits, train], {tokens: x, tags: y})
            if step % 40 == 0:
                print("step %4d loss %.4f acc %.3f time %.2fs"
                      % (step, value, acc, time.time() - start), flush=True)
            if step == STEPS:
                break


if __name__ == "__main__":
    main()
