"""Keyword spotting on (synthetic) log-mel spectrograms with Keras model.fit."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(1)
N, FRAMES, MELS, CLASSES = 3200, 64, 40, 8
BATCH, EPOCHS = 64, 4


def make_spectrograms():
    """Each class is a pair of chirps with its own slopes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, N)
    t = np.linspace(0, 1, FRAMES)[None, :, None]
    mel = np.arange(MELS)[None, None, :]
    start = rng.uniform(8, 30, (N, 1, 1))
    slope = ((y % 4) * 8 - 12)[:, None, None]
    gap = (5 + 5 * (y // 4))[:, None, None]
    f = start + slope * t
    x = np.exp(-((mel - f) / 1.5) ** 2) + 0.7 * np.exp(-((mel - f - gap) / 1.5) ** 2)
    x += 0.25 * rng.standard_normal(x.shape)
    return x.astype("float32")[..., None], y.astype("int32")


def spec_augment(x, y):
    """One random time mask per example, drawn for the whole batch at once."""
    b = tf.shape(x)[0]
    start = tf.random.uniform((b, 1), 0, FRAMES, tf.int32)
    width = tf.random.uniform((b, 1), 0, 9, tf.int32)
    pos = tf.range(FRAMES)[None]
    keep = tf.cast((pos < start) | (pos >= start + width), x.dtype)
    return x * keep[:, :, None, None], y


def build_model():
    inp = keras.Input((FRAMES, MELS, 1))
    h = inp
    for width in (24, 32, 48):
        h = layers.Conv2D(width, 3, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization(momentum=0.9)(h)
        h = layers.ReLU()(h)
        h = layers.MaxPooling2D()(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(CLASSES)(h))


class Timer(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_begin(self, batch, logs=None):
        self.t0 = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter() - self.t0)


x, y = make_spectrograms()
split = N - 320
train = (tf.data.Dataset.from_tensor_slices((x[:split], y[:split]))
         .shuffle(split).batch(BATCH, drop_remainder=True)
         .map(spec_augment, num_parallel_calls=tf.data.AUTOTUNE)
         .prefetch(tf.data.AUTOTUNE))
val = tf.data.Dataset.from_tensor_slices((x[split:], y[split:])).batch(160)

model = build_model()
model.compile(keras.optimizers.Adam(2e-3),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
timer = Timer()
model.fit(train, epochs=EPOCHS, validation_data=val, verbose=2, callbacks=[timer])
print(f"ms per step: {np.median(timer.times[10:]) * 1e3:.2f}")
