"""WGAN (weight clipping, Arjovsky et al.) that learns daily solar production curves.

96 quarter-hours per day, conditioned on nothing.  TensorFlow 1 style.
"""
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_resource_variables()

Z_DIM = 32
LENGTH = 96
BATCH = 64
N_CRITIC = 2
CLIP = 0.05
LR = 5e-5
N_ITERS = 95


def dense(x, units, name, activation=None):
    with tf1.variable_scope(name):
        w = tf1.get_variable("w", [int(x.shape[-1]), units], initializer=tf1.glorot_uniform_initializer(seed=len(name)))
        b = tf1.get_variable("b", [units], initializer=tf1.zeros_initializer())
        y = tf1.matmul(x, w) + b
        return activation(y) if activation else y


def generator(z):
    with tf1.variable_scope("generator", reuse=tf1.AUTO_REUSE):
        h = dense(z, 256, "fc1", tf.nn.relu)
        h = dense(h, 512, "fc2", tf.nn.relu)
        return dense(h, LENGTH, "out", tf.nn.sigmoid)


def critic(x):
    with tf1.variable_scope("critic", reuse=tf1.AUTO_REUSE):
        h = dense(x, 512, "fc1", tf.nn.leaky_relu)
        h = dense(h, 256, "fc2", tf.nn.leaky_relu)
        return dense(h, 1, "score")


def solar_days(n, seed=0):
    rng = np.random.RandomState(seed)
    t = np.linspace(0, 24, LENGTH)[None]
    noon = rng.normal(12.5, 0.4, (n, 1))
    width = rng.uniform(2.2, 4.2, (n, 1))
    peak = rng.beta(5, 2, (n, 1))
    clear = peak * np.exp(-0.5 * ((t - noon) / width) ** 2)
    clouds = 1 - 0.6 * (rng.rand(n, 1) < 0.5) * np.abs(np.sin(t * rng.uniform(1, 3, (n, 1))))
    return (clear * clouds).astype(np.float32)


class WGAN:
    def __init__(self):
        self.z = tf1.placeholder(tf.float32, [None, Z_DIM], name="z")
        self.real = tf1.placeholder(tf.float32, [None, LENGTH], name="real")
        fake = generator(self.z)
        self.w_dist = tf.reduce_mean(critic(self.real)) - tf.reduce_mean(critic(fake))
        self.g_loss = -tf.reduce_mean(critic(fake))
        self.g_vars = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, "generator")
        self.d_vars = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, "critic")
        self.d_step = tf1.train.RMSPropOptimizer(LR).minimize(-self.w_dist, var_list=self.d_vars)
        self.clip_ops = [v.assign(tf.clip_by_value(v, -CLIP, CLIP)) for v in self.d_vars]
        self.g_step = tf1.train.RMSPropOptimizer(LR).minimize(self.g_loss, var_list=self.g_vars)

    def clip_weights(self, sess):
        """Keep the critic (roughly) Lipschitz."""
        sess.run(self.clip_ops)


def train():
    tf1.set_random_seed(1)
    rng = np.random.RandomState(1)
    data = solar_days(4000)
    gan = WGAN()

    def batch():
        return data[rng.randint(0, len(data), BATCH)], rng.normal(size=(BATCH, Z_DIM)).astype(np.float32)

    with tf1.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        t0 = time.time()
        for it in range(1, N_ITERS + 1):
            for _ in range(N_CRITIC):
                real, z = batch()
                sess.run(gan.d_step, {gan.real: real, gan.z: z})
                gan.clip_weights(sess)
            real, z = batch()
            _, w = sess.run([gan.g_step, gan.w_dist], {gan.real: real, gan.z: z})
            if it % 2 == 0:
                print("iter %d  critic %.6f  time %.1f" % (it, w, time.time() - t0))


if __name__ == "__main__":
    train()
