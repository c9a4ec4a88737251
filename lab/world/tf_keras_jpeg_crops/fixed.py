"""Texture classification from random crops of camera JPEGs (tf.data + Keras model.fit)."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CLASSES = 6
PHOTOS = 192
HEIGHT, WIDTH = 480, 640
CROP = 64
BATCH = 16


def shoot_photos(folder):
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:HEIGHT, :WIDTH].astype("float32")
    paths, labels = [], []
    for i in range(PHOTOS):
        c = i % CLASSES
        angle = np.pi * c / CLASSES + rng.normal() * 0.05
        period = 9 + 2 * (c % 3)
        stripe = np.sin((xx * np.cos(angle) + yy * np.sin(angle)) * 2 * np.pi / period)
        light = 110 + 40 * np.sin(xx / 200 + rng.uniform(0, 6)) + 20 * np.cos(yy / 150)
        gray = light + 35 * stripe
        rgb = gray[..., None] * rng.uniform(0.7, 1.1, 3) + rng.normal(0, 10, (HEIGHT, WIDTH, 1))
        data = tf.io.encode_jpeg(np.clip(rgb, 0, 255).astype("uint8"), quality=90)
        path = os.path.join(folder, f"photo_{i:04d}.jpg")
        tf.io.write_file(path, data)
        paths.append(path)
        labels.append(c)
    return paths, labels


def load_crop(path, label):
    data = tf.io.read_file(path)
    shape = tf.io.extract_jpeg_shape(data)
    top = tf.random.uniform([], 0, shape[0] - CROP + 1, tf.int32)
    left = tf.random.uniform([], 0, shape[1] - CROP + 1, tf.int32)
    image = tf.image.decode_and_crop_jpeg(data, [top, left, CROP, CROP], channels=3)
    image = tf.ensure_shape(image, [CROP, CROP, 3])
    image = tf.image.random_flip_left_right(image)
    return tf.cast(image, tf.float32) / 127.5 - 1.0, label


def make_dataset(paths, labels):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.shuffle(len(paths), seed=1)
    ds = ds.map(load_crop, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def residual(x, filters, stride):
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    x = layers.Conv2D(filters, 1, strides=stride)(x)
    return layers.ReLU()(layers.Add()([x, y]))


def build_model():
    inp = keras.Input((CROP, CROP, 3))
    x = layers.Conv2D(12, 5, strides=2, padding="same", activation="relu")(inp)
    for filters in (16, 24, 32):
        x = residual(x, filters, 2)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(CLASSES)(x))


class BatchTimes(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.at = []

    def on_train_batch_end(self, batch, logs=None):
        self.at.append(time.perf_counter())


def main():
    keras.utils.set_random_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        paths, labels = shoot_photos(folder)
        ds = make_dataset(paths, labels)
        model = build_model()
        model.compile(
            optimizer=keras.optimizers.Adam(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        times = BatchTimes()
        hist = model.fit(ds, epochs=10, verbose=0, callbacks=[times])
    print("loss", [round(v, 3) for v in hist.history["loss"]])
    gaps = np.diff(times.at)
    print(f"{len(times.at)} steps, mean {1e3 * gaps[4:].mean():.1f} ms, median {1e3 * np.median(gaps):.1f} ms")


if __name__ == "__main__":
    main()
