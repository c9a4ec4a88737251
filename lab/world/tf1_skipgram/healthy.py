"""word2vec (skip-gram with negative sampling) on a made-up language, TF1 graph mode."""

import collections
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

Config = collections.namedtuple("Config", "vocab dim window batch negatives steps lr seed")
CFG = Config(vocab=8000, dim=128, window=4, batch=4096, negatives=512, steps=250, lr=0.05, seed=8)


def make_text(cfg, n=200000):
    """Topics of 80 words; a text stays on a topic for a while."""
    rng = np.random.RandomState(cfg.seed)
    topic = np.repeat(rng.randint(0, cfg.vocab // 80, n // 50), 50)
    return (topic * 80 + np.minimum(rng.geometric(0.05, n), 80) - 1).astype(np.int32)


def pairs(cfg, text):
    centre, context = [], []
    for d in range(1, cfg.window + 1):
        centre += [text[:-d], text[d:]]
        context += [text[d:], text[:-d]]
    return np.concatenate(centre), np.concatenate(context)


def build(cfg, centre, context):
    u = tf.get_variable(
        "u", [cfg.vocab, cfg.dim], initializer=tf.random_uniform_initializer(-0.05, 0.05)
    )
    v = tf.get_variable("v", [cfg.vocab, cfg.dim], initializer=tf.zeros_initializer())
    h = tf.nn.embedding_lookup(u, centre)
    pos = tf.reduce_sum(h * tf.nn.embedding_lookup(v, context), axis=1)
    noise = tf.random.uniform([cfg.negatives], 0, cfg.vocab, dtype=tf.int32)
    neg = tf.matmul(h, tf.nn.embedding_lookup(v, noise), transpose_b=True)
    loss = tf.reduce_mean(tf.nn.softplus(-pos)) + 5 * tf.reduce_mean(tf.nn.softplus(neg))

    step = tf.train.get_or_create_global_step()
    lr = tf.train.polynomial_decay(cfg.lr, step, cfg.steps, cfg.lr * 0.1)
    train_op = tf.train.AdagradOptimizer(lr, initial_accumulator_value=1e-8).minimize(
        loss, global_step=step
    )
    return loss, train_op, u


def nearest(u, word, k=5):
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    return np.argsort(-u @ u[word])[1 : k + 1]


def main(cfg):
    tf.set_random_seed(cfg.seed)
    centre, context = pairs(cfg, make_text(cfg))
    order = np.random.RandomState(cfg.seed).permutation(len(centre))
    centre, context = centre[order], context[order]

    a = tf.placeholder(tf.int32, [cfg.batch])
    b = tf.placeholder(tf.int32, [cfg.batch])
    loss, train_op, u = build(cfg, a, b)
    init = tf.global_variables_initializer()
    tf.get_default_graph().finalize()

    with tf.Session() as sess:
        sess.run(init)
        for step in range(cfg.steps):
            part = slice(step * cfg.batch, (step + 1) * cfg.batch)
            _, value = sess.run([train_op, loss], {a: centre[part], b: context[part]})
            if (step + 1) % 20 == 0:
                print("step %d loss %.4f" % (step + 1, value))
        print("near word 3:", nearest(sess.run(u), 3))


if __name__ == "__main__":
    main(CFG)
