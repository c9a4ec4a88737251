# Sleep staging from single-channel EEG epochs (30 s at 50 Hz), Keras fit with a tf.data pipeline.
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

RATE, SECONDS = 50, 30
SAMPLES = RATE * SECONDS
STAGES = ["W", "N1", "N2", "N3", "REM"]
# dominant rhythm (Hz) and amplitude per stage
RHYTHM = {"W": (10.0, 0.8), "N1": (6.5, 0.6), "N2": (13.0, 0.7), "N3": (1.2, 2.0), "REM": (5.0, 0.5)}
BATCH, EPOCHS = 64, 5


def record(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLES, dtype=np.float32) / RATE
    stage = rng.integers(0, len(STAGES), n)
    freq = np.array([RHYTHM[s][0] for s in STAGES])[stage] * rng.uniform(0.9, 1.1, n)
    amp = np.array([RHYTHM[s][1] for s in STAGES])[stage] * rng.uniform(0.6, 1.4, n)
    phase = rng.uniform(0, 2 * np.pi, n)
    eeg = amp[:, None] * np.sin(2 * np.pi * freq[:, None] * t + phase[:, None])
    eeg += np.cumsum(rng.standard_normal((n, SAMPLES)), axis=1) * 0.05
    eeg += 0.7 * rng.standard_normal((n, SAMPLES))
    return eeg.astype(np.float32), stage.astype(np.int32)


def standardise(eeg, stage):
    mean, var = tf.nn.moments(eeg, axes=[1], keepdims=True)
    return ((eeg - mean) * tf.math.rsqrt(var + 1e-6))[..., None], stage


def augment(eeg, stage):
    n = tf.shape(eeg)[0]
    gain = tf.random.uniform([n, 1, 1], 0.8, 1.25)
    sign = tf.sign(tf.random.uniform([n, 1, 1]) - 0.5)
    shift = tf.random.uniform([], 0, SAMPLES, tf.int32)
    return tf.roll(eeg, shift, axis=1) * gain * sign, stage


def pipeline(arrays, training):
    ds = tf.data.Dataset.from_tensor_slices(arrays)
    if training:
        ds = ds.shuffle(len(arrays[0]), seed=1)
    ds = ds.batch(BATCH, drop_remainder=training)
    ds = ds.map(standardise, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        ds = ds.cache()
    return ds.prefetch(tf.data.AUTOTUNE)


class SqueezeExcite(layers.Layer):
    def __init__(self, channels, ratio=4):
        super().__init__()
        self.down = layers.Dense(channels // ratio, activation="relu")
        self.up = layers.Dense(channels, activation="sigmoid")

    def call(self, x):
        w = self.up(self.down(ops.mean(x, axis=1)))
        return x * w[:, None, :]


def build():
    x = inputs = keras.Input((SAMPLES, 1))
    x = layers.Conv1D(24, 25, strides=4, padding="same", activation="relu")(x)
    for width in (32, 48):
        x = layers.Conv1D(width, 7, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = SqueezeExcite(width)(x)
        x = layers.MaxPooling1D(4)(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.3)(x)
    model = keras.Model(inputs, layers.Dense(len(STAGES))(x))
    model.compile(keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    return model


class BatchClock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.took = []

    def on_train_batch_begin(self, batch, logs=None):
        self.begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.took.append(time.perf_counter() - self.begin)


def main():
    keras.utils.set_random_seed(12)
    train, valid = pipeline(record(2048, 1), True), pipeline(record(256, 2), False)
    clock = BatchClock()
    model = build()
    model.fit(train, validation_data=valid, epochs=EPOCHS, verbose=2,
              callbacks=[clock, keras.callbacks.ReduceLROnPlateau(patience=2),
                         keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True)])
    print(f"{len(clock.took)} steps, median step {1e3 * np.median(clock.took):.1f} ms")


if __name__ == "__main__":
    main()
