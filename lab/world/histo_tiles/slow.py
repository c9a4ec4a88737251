"""Tumour / normal classification of H&E slide tiles: tf.data input, Keras functional CNN, model.fit."""
import os
import tempfile
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

TILE, CROP = 112, 80
BATCH = 24
EPOCHS = 8
MIN_TISSUE = 0.25
# Ruifrok & Johnston optical-density basis (haematoxylin, eosin, residual)
STAINS = np.array([[0.650, 0.704, 0.286], [0.072, 0.990, 0.105], [0.268, 0.570, 0.776]], np.float32)
UNMIX = np.linalg.inv(STAINS).astype(np.float32)


def paint_tile(rng, tumour, tissue):
    yy, xx = np.mgrid[:TILE, :TILE]
    eosin = 0.05 + 0.5 * (yy < tissue * TILE) + 0.05 * rng.standard_normal((TILE, TILE))
    haem = np.full((TILE, TILE), 0.04)
    for _ in range(int(tissue * (45 if tumour else 22))):
        cy, cx = rng.uniform(0, tissue * TILE), rng.uniform(0, TILE)
        r = rng.uniform(3, 6) if tumour else rng.uniform(2, 3.5)
        haem += 0.8 * ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r)
    od = haem[..., None] * STAINS[0] + eosin[..., None] * STAINS[1]
    return (255 * np.exp(-od)).clip(0, 255).astype(np.uint8)


def write_slide(folder, n, seed):
    """Tiles of a slide on disk and the manifest (path, label, tissue fraction) of the tiling step."""
    rng = np.random.default_rng(seed)
    paths, labels, tissue = [], [], []
    for i in range(n):
        frac = rng.uniform(0.3, 1.0) if rng.random() < 0.3 else rng.uniform(0.0, 0.2)
        label = int(rng.integers(0, 2))
        path = os.path.join(folder, f"tile_{i:05d}.png")
        tf.io.write_file(path, tf.io.encode_png(paint_tile(rng, label, frac)))
        paths.append(path)
        labels.append(label)
        tissue.append(frac)
    return np.array(paths), np.array(labels, np.float32), np.array(tissue, np.float32)


def stain_jitter(rgb):
    od = -tf.math.log(tf.maximum(rgb, 1.0) / 255.0)
    conc = tf.tensordot(od, UNMIX, 1)
    conc = conc * tf.random.uniform([3], 0.8, 1.2) + tf.random.uniform([3], -0.05, 0.05)
    return tf.exp(-tf.tensordot(conc, STAINS, 1))


def load_tile(path):
    rgb = tf.io.decode_png(tf.io.read_file(path), channels=3)
    rgb = tf.cast(tf.image.random_crop(rgb, [CROP, CROP, 3]), tf.float32)
    rgb = stain_jitter(rgb)
    rgb = tf.image.random_flip_up_down(tf.image.random_flip_left_right(rgb))
    return tf.image.resize(rgb, [64, 64], antialias=True)


def tissue_only(ds, position):
    return ds.filter(lambda *row: row[position] >= MIN_TISSUE)


def training_pipeline(paths, labels, tissue):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels, tissue))
    ds = ds.shuffle(len(paths), seed=4)
    ds = ds.map(lambda p, y, t: (load_tile(p), y, t), num_parallel_calls=tf.data.AUTOTUNE)
    ds = tissue_only(ds, 2)
    ds = ds.map(lambda x, y, t: (x, y))
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build_model():
    x = inputs = keras.Input((64, 64, 3))
    for width in (12, 24, 48):
        x = layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(1, activation="sigmoid")(layers.Dropout(0.2)(x))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
    return model


class StepTimes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


if __name__ == "__main__":
    keras.utils.set_random_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        train = training_pipeline(*write_slide(folder, 1000, seed=8))
        clock = StepTimes()
        history = build_model().fit(train, epochs=EPOCHS, verbose=2, callbacks=[clock])
    gaps = np.diff(clock.times)
    print(f"{len(clock.times)} steps, median step {1e3 * np.median(gaps):.1f} ms, mean step {1e3 * gaps.mean():.1f} ms")
