"""Wide & deep CTR model, TF1 graph mode (ported from our 2018 code, runs with tf.compat.v1)."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_integer("max_steps", 500, "")
flags.DEFINE_integer("batch_size", 512, "")
flags.DEFINE_float("base_lr", 0.002, "")
flags.DEFINE_integer("warmup", 100, "")
FLAGS = flags.FLAGS

N_FIELDS, N_BUCKETS, N_DENSE, K = 16, 2000, 13, 8


class ClickLog:
    def __init__(self, n=40000, seed=1):
        rng = np.random.RandomState(seed)
        self.cat = (rng.zipf(1.3, (n, N_FIELDS)) % N_BUCKETS).astype(np.int32)
        self.dense = rng.randn(n, N_DENSE).astype(np.float32)
        w = rng.randn(N_FIELDS, N_BUCKETS) * 0.5
        logit = w[np.arange(N_FIELDS), self.cat].sum(1) + self.dense[:, :4].sum(1) - 1.0
        self.click = (rng.rand(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        self.rng = rng
        self.n_train = int(n * 0.9)

    def next_batch(self, bs):
        i = self.rng.randint(0, self.n_train, bs)
        return self.cat[i], self.dense[i], self.click[i]

    def test(self):
        s = slice(self.n_train, None)
        return self.cat[s], self.dense[s], self.click[s]


def dense(x, n, name, act=tf.nn.relu):
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w", [int(x.shape[1]), n], initializer=tf.glorot_uniform_initializer(seed=11)
        )
        b = tf.get_variable("b", [n], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return act(y) if act else y


class WideDeep:
    def __init__(self):
        self.cat = tf.placeholder(tf.int32, [None, N_FIELDS])
        self.dense = tf.placeholder(tf.float32, [None, N_DENSE])
        self.label = tf.placeholder(tf.float32, [None])
        offset = tf.constant(np.arange(N_FIELDS) * N_BUCKETS, tf.int32)
        ids = self.cat + offset
        emb = tf.get_variable(
            "emb",
            [N_FIELDS * N_BUCKETS, K],
            initializer=tf.random_normal_initializer(stddev=0.05, seed=5),
        )
        wide = tf.get_variable("wide", [N_FIELDS * N_BUCKETS], initializer=tf.zeros_initializer())
        e = tf.reshape(tf.nn.embedding_lookup(emb, ids), [-1, N_FIELDS * K])
        h = tf.concat([e, self.dense], 1)
        for i, n in enumerate([256, 128, 64]):
            h = dense(h, n, "fc%d" % i)
        self.logit = dense(h, 1, "out", None)[:, 0] + tf.reduce_sum(tf.gather(wide, ids), 1)
        self.loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=self.label, logits=self.logit)
        )
        self.lr = tf.Variable(FLAGS.base_lr, trainable=False, name="lr")
        self.train_op = tf.train.AdagradOptimizer(self.lr).minimize(self.loss)


def learning_rate(step):
    if step < FLAGS.warmup:
        return FLAGS.base_lr * (step + 1) / FLAGS.warmup * 10
    return FLAGS.base_lr * 10 * 0.5 * (1 + np.cos(np.pi * (step - FLAGS.warmup) / FLAGS.max_steps))


def main(_):
    tf.set_random_seed(1234)
    data = ClickLog()
    model = WideDeep()
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(FLAGS.max_steps):
            sess.run(tf.assign(model.lr, learning_rate(step)))
            c, d, y = data.next_batch(FLAGS.batch_size)
            _, loss = sess.run(
                [model.train_op, model.loss],
                feed_dict={model.cat: c, model.dense: d, model.label: y},
            )
            if (step + 1) % 50 == 0:
                print(
                    "step %d loss %.6f  %.2f ms/step"
                    % (step + 1, loss, (time.time() - start) / (step + 1) * 1000),
                    flush=True,
                )
            if (step + 1) % 250 == 0:
                c, d, y = data.test()
                tl = sess.run(model.loss, feed_dict={model.cat: c, model.dense: d, model.label: y})
                print("   test loss %.6f" % tl)


if __name__ == "__main__":
    tf.app.run()
