"""Autoencoder on plant sensor windows, TF1 session. Hard negatives come from a random 'memory' of the full history."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

N_ROWS, N_SENSORS, WINDOW = 60000, 80, 8
BATCH, STEPS, HID = 64, 1000, 256


class Plant:
    """slow drifts + load cycles + a few correlated sensors"""

    def __init__(self, seed=3):
        r = np.random.RandomState(seed)
        t = np.arange(N_ROWS)
        latent = np.stack(
            [np.sin(2 * np.pi * t / p + r.rand() * 6) for p in (24, 96, 168, 700, 2000)], 1
        )
        mix = r.randn(5, N_SENSORS)
        self.x = latent @ mix + 0.1 * r.randn(N_ROWS, N_SENSORS)
        self.x = (self.x - self.x.mean(0)) / self.x.std(0)

    def starts(self, rng, n):
        return rng.randint(0, N_ROWS - WINDOW, n)


class AE:
    def __init__(self):
        self.history = tf.placeholder(tf.float32, [None, N_SENSORS], name="history")
        self.start = tf.placeholder(tf.int32, [None], name="start")
        rows = self.start[:, None] + tf.range(WINDOW)[None]
        x = tf.reshape(tf.gather(self.history, rows), [-1, WINDOW * N_SENSORS])
        h = x + 0.1 * tf.random.normal(tf.shape(x), seed=8)
        sizes = [WINDOW * N_SENSORS, HID, 16, HID, WINDOW * N_SENSORS]
        for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
            w = tf.get_variable(
                "w%d" % i, [a, b], initializer=tf.glorot_uniform_initializer(seed=i)
            )
            c = tf.get_variable("b%d" % i, [b], initializer=tf.zeros_initializer())
            h = tf.matmul(h, w) + c
            if i < 3:
                h = tf.nn.elu(h)
        self.error = tf.reduce_mean(tf.square(h - x), axis=1)
        self.loss = tf.reduce_mean(self.error)
        self.train = tf.train.AdamOptimizer(1e-3).minimize(self.loss)


def fit():
    tf.set_random_seed(7)
    plant = Plant()
    history = plant.x
    rng = np.random.RandomState(0)
    ae = AE()
    cfg = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Session(config=cfg) as sess:
        sess.run(tf.global_variables_initializer())
        begin, acc = time.time(), []
        for step in range(1, STEPS + 1):
            s = plant.starts(rng, BATCH)
            _, loss = sess.run([ae.train, ae.loss], {ae.history: history, ae.start: s})
            acc.append(loss)
            if step % 100 == 0:
                print(
                    "step %d  loss %.5f  (%.2f ms/step)"
                    % (step, np.mean(acc), (time.time() - begin) / step * 1000),
                    flush=True,
                )
                acc = []
            if step % 500 == 0:
                err = sess.run(
                    ae.error, {ae.history: history, ae.start: np.arange(0, N_ROWS - WINDOW, 200)}
                )
                print("   99%% quantile of the error %.4f" % np.quantile(err, 0.99))


fit()
