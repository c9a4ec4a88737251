"""Keras classifier for windows of sensor data, with a live validation metric."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

WINDOW, CHANNELS, CLASSES = 96, 9, 6


def recordings(n, seed=0):
    """Periodic motion; the activity sets the frequency and the axis mix."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    t = np.arange(WINDOW)
    freq = 0.02 + 0.015 * y + rng.normal(0, 0.004, n)
    phase = rng.uniform(0, 2 * np.pi, n)
    wave = np.sin(2 * np.pi * freq[:, None] * t + phase[:, None])
    mix = np.random.default_rng(99).normal(size=(CLASSES, CHANNELS))[y]
    x = wave[:, :, None] * mix[:, None, :] + 0.8 * rng.standard_normal((n, WINDOW, CHANNELS))
    return x.astype("float32"), y.astype("int32")


def build_model(width=96):
    inp = keras.Input((WINDOW, CHANNELS))
    h = layers.Conv1D(width, 7, padding="same", activation="relu")(inp)
    h = layers.LayerNormalization()(h)
    h = layers.MaxPooling1D(2)(h)
    h = layers.Conv1D(2 * width, 5, padding="same", activation="relu")(h)
    h = layers.LayerNormalization()(h)
    h = layers.Conv1D(2 * width, 3, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    out = layers.Dense(CLASSES)(h)
    return keras.Model(inp, out)


class ValidationCurve(keras.callbacks.Callback):
    """Keeps the validation accuracy while training, for the plot in the report."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
        self.curve = []

    def measure(self):
        logits = self.model.predict(self.x, batch_size=256, verbose=0)
        self.curve.append(float((logits.argmax(1) == self.y).mean()))

    def on_epoch_end(self, epoch, logs=None):
        self.measure()


def main():
    keras.utils.set_random_seed(11)
    x, y = recordings(4096)
    xv, yv = recordings(512, seed=1)

    train = (
        tf.data.Dataset.from_tensor_slices((x, y))
        .shuffle(4096, seed=5)
        .batch(64, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    curve = ValidationCurve(xv, yv)
    hist = model.fit(train, epochs=2, verbose=0, callbacks=[curve])
    for e, (l, a) in enumerate(zip(hist.history["loss"], hist.history["accuracy"])):
        print(f"epoch {e} loss {l:.4f} accuracy {a:.4f}")
    print("last validation accuracy %.4f" % curve.curve[-1])


if __name__ == "__main__":
    main()
