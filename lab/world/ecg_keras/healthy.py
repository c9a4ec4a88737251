"""Arrhythmia classification from two-lead ECG strips with a 1-D ResNet (Keras)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

RATE, SECONDS, LEADS = 128, 6, 2
CLASSES = ["normal", "afib", "pvc", "brady"]


def beat(t, centre, wide=False):
    """P, QRS and T waves around an R peak."""
    w = 2.5 if wide else 1.0
    wave = 0.12 * np.exp(-((t - centre + 0.18) / 0.03) ** 2)
    wave += (1.4 if wide else 1.0) * np.exp(-((t - centre) / (0.018 * w)) ** 2)
    wave -= 0.25 * np.exp(-((t - centre - 0.035 * w) / (0.02 * w)) ** 2)
    return wave + 0.25 * np.exp(-((t - centre - 0.28) / 0.06) ** 2)


def make_strips(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE * SECONDS) / RATE
    x = np.zeros((n, t.size, LEADS), np.float32)
    y = rng.integers(0, len(CLASSES), n)
    for i in range(n):
        rr = {0: 0.8, 1: 0.7, 2: 0.8, 3: 1.3}[int(y[i])]
        jitter = 0.25 if y[i] == 1 else 0.02
        centre, sig = rng.uniform(0, 0.5), np.zeros_like(t)
        while centre < SECONDS:
            sig += beat(t, centre, wide=y[i] == 2 and rng.random() < 0.35)
            centre += max(0.35, rr + rng.normal(0, jitter))
        drift = 0.2 * np.sin(2 * np.pi * rng.uniform(0.1, 0.4) * t)
        x[i] = np.stack([sig + drift, 0.7 * sig - drift], -1) + rng.normal(0, 0.05, (t.size, LEADS))
    return x, y.astype(np.int32)


def residual(x, filters, stride):
    skip = layers.Conv1D(filters, 1, strides=stride, use_bias=False)(x)
    y = layers.Conv1D(filters, 9, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv1D(filters, 9, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    return layers.ReLU()(layers.Add()([skip, y]))


def build():
    inp = keras.Input((RATE * SECONDS, LEADS))
    x = layers.Conv1D(16, 15, strides=2, padding="same", activation="relu")(inp)
    for filters in (24, 32, 48):
        x = residual(x, filters, 2)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inp, layers.Dense(len(CLASSES))(x))


class Report(keras.callbacks.Callback):
    """A line every few batches; Keras' bar does not survive our log collector."""

    def __init__(self, every=10):
        super().__init__()
        self.every, self.count, self.start = every, 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count % self.every == 0:
            print("step %d loss %.4f acc %.3f (%.1fs)" % (self.count, logs["loss"], logs["accuracy"], time.time() - self.start))


def main():
    keras.utils.set_random_seed(3)
    x, y = make_strips(1536, 0)
    xv, yv = make_strips(128, 1)
    train = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(len(x)).batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    valid = tf.data.Dataset.from_tensor_slices((xv, yv)).batch(64)
    model = build()
    model.compile(optimizer=keras.optimizers.AdamW(2e-3),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(train, validation_data=valid, epochs=16, verbose=0, callbacks=[Report()])


if __name__ == "__main__":
    main()
