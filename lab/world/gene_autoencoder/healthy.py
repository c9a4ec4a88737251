"""Denoising autoencoder of synthetic expression profiles (session style)."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

GENES = 1200
FACTORS = 15
SAMPLES = 6000
BATCH = 128
STEPS = 600


def make_profiles(seed=3):
    rng = np.random.RandomState(seed)
    programs = rng.gamma(0.5, 1.0, (FACTORS, GENES)) * (rng.rand(FACTORS, GENES) < 0.2)
    use = rng.gamma(1.0, 1.0, (SAMPLES, FACTORS))
    counts = rng.poisson(use.dot(programs))
    x = np.log1p(counts)
    return ((x - x.mean(0)) / (x.std(0) + 1e-3)).astype(np.float32)


def dense(x, name, units, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[-1]), units], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        y = tf.nn.bias_add(tf.matmul(x, w), b)
    return activation(y) if activation else y


class Autoencoder:
    def __init__(self):
        tf.set_random_seed(3)
        self.x = tf.placeholder(tf.float32, [None, GENES], "x")
        self.drop = tf.placeholder_with_default(0.0, [], "drop")
        h = tf.nn.dropout(self.x, rate=self.drop)
        h = dense(h, "enc1", 512, tf.nn.relu)
        self.code = dense(h, "enc2", 32)
        h = dense(self.code, "dec1", 512, tf.nn.relu)
        self.recon = dense(h, "dec2", GENES)
        self.loss = tf.reduce_mean(tf.square(self.recon - self.x))
        self.global_step = tf.train.get_or_create_global_step()
        rate = tf.train.cosine_decay(0.2, self.global_step, STEPS)
        opt = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)
        self.train = opt.minimize(self.loss, global_step=self.global_step)
        self.init = tf.global_variables_initializer()


def batches(x, rng):
    while True:
        order = rng.permutation(len(x))
        for i in range(0, len(x) - BATCH + 1, BATCH):
            yield x[order[i:i + BATCH]]


def main():
    profiles = make_profiles()
    train, held = profiles[:-500], profiles[-500:]
    model = Autoencoder()
    tf.get_default_graph().finalize()
    source = batches(train, np.random.RandomState(4))
    with tf.Session() as sess:
        sess.run(model.init)
        start = time.time()
        for step in range(1, STEPS + 1):
            feed = {model.x: next(source), model.drop: 0.2}
            if step % 50:
                sess.run(model.train, feed)
            else:
                loss, _ = sess.run([model.loss, model.train], feed)
                test = sess.run(model.loss, {model.x: held})
                print("step %4d loss %.4f test %.4f time %.2fs"
                      % (step, loss, test, time.time() - start), flush=True)


if __name__ == "__main__":
    main()
