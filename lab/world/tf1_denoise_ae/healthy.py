"""Denoising autoencoder for gear-vibration spectra: tf.data input and MonitoredTrainingSession."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

BINS = 512
N_TRAIN = 12000
N_VALID = 1000
BATCH = 256
STEPS = 1200
HIDDEN = (384, 128, 24)


def vibration_spectra(n, seed):
    rng = np.random.RandomState(seed)
    f = np.linspace(0, 1, BINS, dtype=np.float32)[None, :]
    base = rng.uniform(0.04, 0.12, (n, 1)).astype(np.float32)
    out = np.zeros((n, BINS), np.float32)
    for harmonic in range(1, 7):
        amp = (rng.uniform(0.3, 1.0, (n, 1)) / harmonic).astype(np.float32)
        out += amp * np.exp(-((f - harmonic * base) / 0.006) ** 2)
    return out


def make_input(features_ph):
    ds = tf.data.Dataset.from_tensor_slices(features_ph)
    ds = ds.shuffle(N_TRAIN, seed=1).repeat().batch(BATCH, drop_remainder=True)
    ds = ds.map(lambda x: (x + tf.random_normal(tf.shape(x), stddev=0.1), x))
    ds = ds.prefetch(2)
    return tf.data.make_initializable_iterator(ds)


def dense(x, units, name, activation=None):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [int(x.shape[1]), units],
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
    y = tf.nn.bias_add(tf.matmul(x, w), b)
    return activation(y) if activation is not None else y


def autoencoder(x):
    h = x
    for i, units in enumerate(HIDDEN):
        h = dense(h, units, "enc%d" % i, tf.nn.relu)
    for i, units in enumerate(reversed(HIDDEN[:-1])):
        h = dense(h, units, "dec%d" % i, tf.nn.relu)
    return dense(h, BINS, "out")


class ValidationHook(tf.train.SessionRunHook):
    def __init__(self, error, noisy_ph, clean_ph, clean, every):
        rng = np.random.RandomState(5)
        noisy = (clean + rng.normal(0, 0.1, clean.shape)).astype(np.float32)
        self.error, self.feed = error, {noisy_ph: noisy, clean_ph: clean}
        self.every, self.step = every, 0

    def after_run(self, run_context, run_values):
        self.step += 1
        if self.step % self.every == 0:
            value = run_context.session.run(self.error, feed_dict=self.feed)
            print("step %d validation mse %.5f" % (self.step, value))


def main(_):
    tf.set_random_seed(0)
    train, valid = vibration_spectra(N_TRAIN, 0), vibration_spectra(N_VALID, 1)
    features_ph = tf.placeholder(tf.float32, [N_TRAIN, BINS])
    iterator = make_input(features_ph)
    noisy, clean = iterator.get_next()
    noisy.set_shape([BATCH, BINS])
    loss = tf.reduce_mean(tf.squared_difference(autoencoder(noisy), clean))
    global_step = tf.train.get_or_create_global_step()
    lr = tf.train.polynomial_decay(2e-3, global_step, STEPS, 1e-4)
    train_op = tf.train.AdamOptimizer(lr).minimize(loss, global_step=global_step)

    noisy_ph = tf.placeholder(tf.float32, [None, BINS])
    clean_ph = tf.placeholder(tf.float32, [None, BINS])
    error = tf.reduce_mean(tf.squared_difference(autoencoder(noisy_ph), clean_ph))

    scaffold = tf.train.Scaffold(
        init_fn=lambda scaffold, sess: sess.run(iterator.initializer, {features_ph: train}))
    with tempfile.TemporaryDirectory() as folder:
        hooks = [tf.train.StopAtStepHook(last_step=STEPS),
                 ValidationHook(error, noisy_ph, clean_ph, valid, 300)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=os.path.join(folder, "ae"),
                                               scaffold=scaffold, hooks=hooks,
                                               save_checkpoint_steps=STEPS,
                                               save_summaries_steps=None,
                                               save_summaries_secs=None,
                                               log_step_count_steps=None) as sess:
            start, steps = time.time(), 0
            while not sess.should_stop():
                sess.run(train_op)
                steps += 1
            elapsed = time.time() - start
    print("%d steps, %.2f ms/step" % (steps, 1000.0 * elapsed / steps))


if __name__ == "__main__":
    tf.app.run()
