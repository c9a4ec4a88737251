"""Leaf disease classifier: a small convolutional network trained with model.fit."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

STEPS = int(os.environ.get("STEPS", "450"))
EPOCHS = 3
BATCH = 16
SIZE = 32
CLASSES = 6


def make_leaves(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
    images = np.empty((n, SIZE, SIZE, 3), np.float32)
    labels = rng.integers(0, CLASSES, n)
    for i, label in enumerate(labels):
        angle = rng.uniform(0, np.pi)
        u = xx * np.cos(angle) + yy * np.sin(angle)
        v = -xx * np.sin(angle) + yy * np.cos(angle)
        leaf = (u / 0.9) ** 2 + (v / rng.uniform(0.35, 0.55)) ** 2 < 1
        green = np.array([0.15, rng.uniform(0.4, 0.7), 0.15])
        img = np.where(leaf[..., None], green, rng.uniform(0.6, 0.9))
        for _ in range(3 * label):
            cx, cy = rng.uniform(-0.6, 0.6), rng.uniform(-0.2, 0.2)
            spot = (u - cx) ** 2 + (v - cy) ** 2 < rng.uniform(0.004, 0.012)
            img = np.where((spot & leaf)[..., None], [0.45, 0.3, 0.1], img)
        images[i] = img + rng.normal(0, 0.02, img.shape)
    return images, labels


def build_model():
    inputs = keras.Input((SIZE, SIZE, 3))
    x = layers.Rescaling(2.0, offset=-1.0)(inputs)
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(512, activation="relu")(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


class Progress(keras.callbacks.Callback):
    def __init__(self, every=50, skip=20):
        super().__init__()
        self.every, self.skip, self.seen, self.start = every, skip, 0, None

    def on_train_batch_begin(self, batch, logs=None):
        if self.seen == self.skip:
            self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every == 0:
            print(f"step {self.seen:4d}  loss {float(logs['loss']):.4f}", flush=True)


def main():
    keras.utils.set_random_seed(0)
    x_train, y_train = make_leaves(3200, seed=0)
    x_val, y_val = make_leaves(400, seed=1)
    train = (tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(3200, seed=3)
             .repeat().batch(BATCH, drop_remainder=True).prefetch(2))
    val = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(200)

    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    progress = Progress()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "last.keras"), save_freq="epoch")
        history = model.fit(train, epochs=EPOCHS, steps_per_epoch=max(STEPS // EPOCHS, 1),
                            callbacks=[progress, checkpoint], verbose=0)
        elapsed = time.perf_counter() - (progress.start or time.perf_counter())
        saved = keras.models.load_model(os.path.join(folder, "last.keras"))
    loss, acc = saved.evaluate(val, verbose=0)
    print(f"final loss {history.history['loss'][-1]:.4f}  val loss {loss:.4f}  val acc {acc:.3f}")
    print(f"{1000 * elapsed / max(progress.seen - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
