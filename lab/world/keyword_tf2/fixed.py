"""Keyword spotting on synthetic chirps, TF2 custom loop with checkpoints so that a preempted job can go on."""

import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=350)
p.add_argument("--batch", type=int, default=24)
p.add_argument("--save_every", type=int, default=100)
p.add_argument("--model_dir", default=None)
args = p.parse_args()
tf.keras.utils.set_random_seed(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
N_CLASS, SAMPLES, FRAME = 6, 4096, 256


class Chirps:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.t = np.arange(SAMPLES) / 8000.0
        self.window = np.hanning(FRAME)

    def batch(self, n):
        y = self.rng.integers(0, N_CLASS, n)
        f0 = 300 + 250 * y[:, None] + self.rng.normal(0, 60, (n, 1))
        slope = self.rng.normal(0, 500, (n, 1))
        wav = np.sin(2 * np.pi * (f0 + slope * self.t) * self.t) + 0.5 * self.rng.standard_normal(
            (n, SAMPLES)
        )
        frames = wav.reshape(n, -1, FRAME) * self.window
        spec = np.log1p(np.abs(np.fft.rfft(frames, axis=-1))[..., :96])
        return spec[..., None].astype(np.float32), y.astype(np.int32)


def build():
    return tf.keras.Sequential(
        [
            layers.Input((SAMPLES // FRAME, 96, 1)),
            layers.Conv2D(16, 3, strides=(1, 2), padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(N_CLASS),
        ]
    )


class Trainer:
    def __init__(self, model_dir):
        self.model = build()
        self.optimizer = tf.keras.optimizers.Adam(2e-3)
        self.optimizer.build(self.model.trainable_variables)
        self.loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.mean = tf.keras.metrics.Mean()
        self.ckpt = tf.train.Checkpoint(
            step=tf.Variable(0, dtype=tf.int64), model=self.model, optimizer=self.optimizer
        )
        self.manager = tf.train.CheckpointManager(self.ckpt, model_dir, max_to_keep=2)
        self.ckpt.restore(self.manager.latest_checkpoint)

    @tf.function
    def train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def maybe_save(self):
        if int(self.ckpt.step) % args.save_every == 0:
            self.manager.save()

    def fit(self, train, valid, steps):
        vx, vy = valid.batch(300)
        self.train_step(*map(tf.constant, train.batch(args.batch)))
        start = time.time()
        for step in range(1, steps + 1):
            x, y = train.batch(args.batch)
            self.mean.update_state(self.train_step(tf.constant(x), tf.constant(y)))
            self.ckpt.step.assign_add(1)
            self.maybe_save()
            if step % 50 == 0:
                print(
                    "step %d loss %.5f  %.2f ms/step"
                    % (step, self.mean.result(), (time.time() - start) / step * 1000),
                    flush=True,
                )
                self.mean.reset_state()
            if step % 175 == 0:
                acc = np.mean(np.argmax(self.model(vx, training=False), 1) == vy)
                print("   val acc %.3f" % acc)


if __name__ == "__main__":
    Trainer(args.model_dir or tempfile.mkdtemp()).fit(Chirps(0), Chirps(99), args.steps)
