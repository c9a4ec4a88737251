"""Kim-style CNN for sentence classification, tf.Session version."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

FLAGS = dict(
    vocab=5000,
    length=40,
    dim=96,
    filters=128,
    sizes=(3, 4, 5),
    classes=5,
    batch=64,
    steps=260,
    lr=1e-3,
    l2=1e-4,
)


def sentences(n, seed=0):
    """Each class has its own frequent word pairs."""
    rng = np.random.RandomState(seed)
    y = rng.randint(0, FLAGS["classes"], n)
    x = rng.randint(200, FLAGS["vocab"], (n, FLAGS["length"]))
    for row, label in zip(x, y):
        for _ in range(2):
            p = rng.randint(0, FLAGS["length"] - 1)
            k = rng.randint(0, 10)
            row[p], row[p + 1] = label * 20 + k, label * 20 + k + 10
    return x.astype(np.int32), y.astype(np.int64)


class TextCNN:
    def __init__(self, f):
        self.x = tf.placeholder(tf.int32, [None, f["length"]])
        self.y = tf.placeholder(tf.int64, [None])
        with tf.variable_scope("embedding"):
            table = tf.get_variable(
                "W",
                [f["vocab"], f["dim"]],
                initializer=tf.random_uniform_initializer(-0.25, 0.25, seed=1),
            )
            emb = tf.nn.embedding_lookup(table, self.x)
        pooled = []
        for size in f["sizes"]:
            with tf.variable_scope("conv%d" % size):
                w = tf.get_variable(
                    "W",
                    [size, f["dim"], f["filters"]],
                    initializer=tf.truncated_normal_initializer(stddev=0.1, seed=size),
                )
                b = tf.get_variable("b", [f["filters"]], initializer=tf.constant_initializer(0.1))
                h = tf.nn.conv1d(emb, w, 1, "VALID")
                h = tf.nn.relu(tf.nn.bias_add(h, b))
                pooled.append(tf.reduce_max(h, axis=1))
        feat = tf.concat(pooled, axis=1)
        with tf.variable_scope("output"):
            w = tf.get_variable(
                "W",
                [feat.shape[1], f["classes"]],
                initializer=tf.glorot_uniform_initializer(seed=9),
            )
            b = tf.get_variable("b", [f["classes"]], initializer=tf.zeros_initializer())
            logits = tf.matmul(feat, w) + b
        xent = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits)
        self.loss = tf.reduce_mean(xent) + f["l2"] * tf.nn.l2_loss(w)
        hit = tf.equal(tf.argmax(logits, 1), self.y)
        self.accuracy = tf.reduce_mean(tf.cast(hit, tf.float32))
        self.train_op = tf.train.AdamOptimizer(f["lr"]).minimize(self.loss)


def batches(x, y, size, steps, seed=2):
    rng = np.random.RandomState(seed)
    for _ in range(steps):
        pick = rng.randint(0, len(y), size)
        yield x[pick], y[pick]


def train(f):
    x, y = sentences(8000)
    net = TextCNN(f)
    sess = tf.Session()
    sess.run(tf.global_variables_initializer())
    for step, (bx, by) in enumerate(batches(x, y, f["batch"], f["steps"]), 1):
        feed = {net.x: bx, net.y: by}
        loss = sess.run(net.loss, feed_dict=feed)
        acc = sess.run(net.accuracy, feed_dict=feed)
        sess.run(net.train_op, feed_dict=feed)
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss:.4f}  acc {acc:.3f}")
    sess.close()


if __name__ == "__main__":
    train(FLAGS)
