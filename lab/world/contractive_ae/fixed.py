"""Anomaly detection on machine sensor windows: contractive autoencoder, MonitoredTrainingSession."""
import os
import shutil
import tempfile
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf2

tf = tf2.compat.v1
tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

CHANNELS, WINDOW = 8, 48
N_INPUT = CHANNELS * WINDOW
BATCH = 192
STEPS = 240


def sensor_windows(n, seed, anomalous=False):
    rng = np.random.default_rng(seed)
    t = np.arange(WINDOW)
    freq = np.random.default_rng(0).uniform(0.05, 0.35, CHANNELS)[None, :, None]
    phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    load = rng.uniform(0.6, 1.4, (n, 1, 1))
    x = load * np.sin(2 * np.pi * freq * t + phase) + 0.1 * rng.normal(size=(n, CHANNELS, WINDOW))
    if anomalous:
        start = rng.integers(0, WINDOW - 12, n)
        for i, s in enumerate(start):
            x[i, rng.integers(CHANNELS), s:s + 12] += rng.choice([-0.35, 0.35])
    return x.reshape(n, -1).astype(np.float32)


class ContractiveAutoencoder:
    def __init__(self, hidden=48, decoder=(384, 512), weight=1e-3, lr=1e-3):
        self.hidden, self.weight, self.lr = hidden, weight, lr
        self.decoder = decoder
        with tf.variable_scope("encoder"):
            self.w_enc = tf.get_variable("w", [N_INPUT, hidden], initializer=tf.glorot_uniform_initializer())
            self.b_enc = tf.get_variable("b", [hidden], initializer=tf.zeros_initializer())
        sizes = [hidden, *decoder, N_INPUT]
        with tf.variable_scope("decoder"):
            self.dec = [(tf.get_variable(f"w{i}", [a, b], initializer=tf.glorot_uniform_initializer()),
                         tf.get_variable(f"b{i}", [b], initializer=tf.zeros_initializer()))
                        for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:]))]

    def encode(self, x):
        return tf.nn.sigmoid(tf.matmul(x, self.w_enc) + self.b_enc)

    def decode(self, h):
        for w, b in self.dec[:-1]:
            h = tf.nn.relu(tf.matmul(h, w) + b)
        w, b = self.dec[-1]
        return tf.matmul(h, w) + b

    def contraction(self, x, code):
        """Squared Frobenius norm of the encoder's Jacobian, one value per window."""
        row_norms = tf.reduce_sum(tf.square(self.w_enc), axis=0)
        return tf.reduce_sum(tf.square(code * (1.0 - code)) * row_norms, axis=1)

    def score(self, x):
        return tf.reduce_mean(tf.square(self.decode(self.encode(x)) - x), axis=1)

    def train_op(self, x):
        code = self.encode(x)
        recon = tf.reduce_mean(tf.reduce_sum(tf.square(self.decode(code) - x), axis=1))
        contraction = tf.reduce_mean(self.contraction(x, code))
        loss = recon + self.weight * contraction
        tf.summary.scalar("reconstruction", recon)
        tf.summary.scalar("contraction", contraction)
        step = tf.train.get_or_create_global_step()
        opt = tf.train.AdamOptimizer(self.lr)
        grads, variables = zip(*opt.compute_gradients(loss))
        grads, _ = tf.clip_by_global_norm(grads, 10.0)
        return opt.apply_gradients(zip(grads, variables), global_step=step), loss


def batches(windows):
    ds = tf.data.Dataset.from_tensor_slices(windows)
    ds = ds.shuffle(len(windows), seed=4).repeat().batch(BATCH).prefetch(2)
    return tf.data.make_one_shot_iterator(ds).get_next()


class StepTimes(tf.train.SessionRunHook):
    def begin(self):
        self.ms = []

    def before_run(self, run_context):
        self.t0 = time.perf_counter()

    def after_run(self, run_context, run_values):
        self.ms.append((time.perf_counter() - self.t0) * 1e3)

    def end(self, session):
        print(f"{len(self.ms)} steps, median {np.median(self.ms):.1f} ms")


def main():
    tf.set_random_seed(8)
    logdir = tempfile.mkdtemp(prefix="cae_")
    normal = sensor_windows(6000, 1)
    held_out = np.concatenate([sensor_windows(400, 2), sensor_windows(400, 3, anomalous=True)])
    is_anomaly = np.repeat([False, True], 400)

    model = ContractiveAutoencoder()
    train, loss = model.train_op(batches(normal))
    probe = tf.placeholder(tf.float32, [None, N_INPUT])
    probe_score = model.score(probe)

    hooks = [tf.train.StopAtStepHook(last_step=STEPS), tf.train.NanTensorHook(loss), StepTimes()]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=logdir, hooks=hooks, save_summaries_steps=50,
                                           save_checkpoint_steps=STEPS, log_step_count_steps=100) as sess:
        while not sess.should_stop():
            value, _ = sess.run([loss, train])

    with tf.Session() as sess:
        tf.train.Saver().restore(sess, tf.train.latest_checkpoint(logdir))
        scores = sess.run(probe_score, {probe: held_out})
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    auc = (ranks[is_anomaly].sum() - 400 * 401 / 2) / (400 * 400)
    print(f"last loss {value:.3f}, detection ROC-AUC {auc:.3f}")
    shutil.rmtree(logdir)


if __name__ == "__main__":
    main()
