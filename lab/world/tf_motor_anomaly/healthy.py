"""Autoencoder for motor sounds; custom loop in a tf.function, ROC check now and then."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

RATE, LENGTH, BINS, FRAMES = 8000, 4096, 128, 31


def hum(n, rng, broken=False):
    """A fundamental with harmonics; a broken motor has a rattle at a high pitch."""
    t = np.arange(LENGTH) / RATE
    f = rng.uniform(90, 110, (n, 1))
    wave = sum(
        np.sin(2 * np.pi * k * f * t + rng.uniform(0, 6.28, (n, 1))) / k for k in range(1, 7)
    )
    if broken:
        wave += 0.4 * np.sin(2 * np.pi * 2300 * t) * (np.sin(2 * np.pi * 13 * t) > 0.3)
    return (wave + 0.2 * rng.standard_normal((n, LENGTH))).astype(np.float32)


def spectrograms(waves):
    s = tf.abs(tf.signal.stft(waves, 256, 128))[:, :, 1:]
    s = tf.math.log(s + 1e-3)
    return ((s + 1.0) / 2.5)[..., None]


class AutoEncoder(tf.keras.Model):
    def __init__(self, ch=16, code=32):
        super().__init__()
        conv = lambda c: tf.keras.layers.Conv2D(c, 3, 2, padding="same", activation="elu")
        up = lambda c, a=None: tf.keras.layers.Conv2DTranspose(
            c, 3, 2, padding="same", activation=a
        )
        self.encoder = tf.keras.Sequential(
            [
                conv(ch),
                conv(2 * ch),
                conv(2 * ch),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(code),
            ]
        )
        self.decoder = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(4 * 16 * 2 * ch, activation="elu"),
                tf.keras.layers.Reshape((4, 16, 2 * ch)),
                up(2 * ch, "elu"),
                up(ch, "elu"),
                up(1),
            ]
        )

    def call(self, x):
        return self.decoder(self.encoder(x))[:, :FRAMES]


class Runner:
    def __init__(self, steps):
        self.model = AutoEncoder()
        self.steps = steps
        decay = tf.keras.optimizers.schedules.ExponentialDecay(2e-3, 100, 0.7)
        self.opt = tf.keras.optimizers.Adam(decay, global_clipnorm=1.0)

    @tf.function
    def train_step(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self.model(x) - x))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function
    def score(self, x):
        return tf.reduce_mean((self.model(x) - x) ** 2, axis=[1, 2, 3])

    def auc(self, good, bad):
        a, b = self.score(good).numpy(), self.score(bad).numpy()
        return (b[:, None] > a[None, :]).mean()

    def fit(self, data, good, bad):
        for step, x in enumerate(data.take(self.steps), 1):
            loss = self.train_step(x)
            if step % 50 == 0:
                print(f"step {step} loss {float(loss):.4f}")
            if step % 200 == 0:
                print(f"  AUC {self.auc(good, bad):.3f}")


def main():
    tf.keras.utils.set_random_seed(12)
    rng = np.random.default_rng(12)
    train = spectrograms(hum(1024, rng))
    good, bad = spectrograms(hum(96, rng)), spectrograms(hum(96, rng, broken=True))
    data = tf.data.Dataset.from_tensor_slices(train).shuffle(1024, seed=1)
    data = data.batch(64, drop_remainder=True).repeat().prefetch(2)
    Runner(steps=300).fit(data, good, bad)


if __name__ == "__main__":
    main()
