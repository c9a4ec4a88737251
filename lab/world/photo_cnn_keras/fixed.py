"""Image classification from a folder of JPEG files with tf.data and Keras
(after the "Load and preprocess images" tutorial)."""
import os
import pathlib
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from PIL import Image

IMG_SIZE = 96
BATCH_SIZE = 16
EPOCHS = 8
N_PER_CLASS = 80
CLASS_NAMES = ["checks", "dots", "stripes"]
AUTOTUNE = tf.data.AUTOTUNE
keras.utils.set_random_seed(7)


def make_photos(root):
    """Writes 640x480 'photos' of textures, one sub folder per class."""
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[0:480, 0:640].astype(np.float32)
    for name in CLASS_NAMES:
        (root / name).mkdir()
        for i in range(N_PER_CLASS):
            f = rng.uniform(0.03, 0.08)
            a, p = rng.uniform(0, np.pi), rng.uniform(0, 6.28)
            u, v = xx * np.cos(a) + yy * np.sin(a), yy * np.cos(a) - xx * np.sin(a)
            if name == "stripes":
                t = np.sin(f * u + p)
            elif name == "checks":
                t = np.sign(np.sin(f * u + p) * np.sin(f * v))
            else:
                t = np.sin(f * u + p) + np.sin(f * v) - 1
            base = t[..., None] * rng.uniform(20, 90, 3).astype(np.float32) + rng.uniform(80, 170, 3).astype(np.float32)
            noise = rng.integers(-12, 12, (480, 640, 1))
            img = np.clip(base + noise, 0, 255).astype(np.uint8)
            Image.fromarray(img).save(root / name / f"{i:04d}.jpg", quality=92)


def get_label(file_path):
    parts = tf.strings.split(file_path, os.path.sep)
    return tf.argmax(parts[-2] == CLASS_NAMES)


def process_path(file_path):
    label = get_label(file_path)
    img = tf.io.read_file(file_path)
    img = tf.io.decode_jpeg(img, channels=3)
    img = tf.image.resize(img, [IMG_SIZE, IMG_SIZE], antialias=True) / 255.0
    return img, label


def augment(img, label):
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_brightness(img, 0.1)
    return tf.clip_by_value(img, 0.0, 1.0), label


def make_dataset(root):
    files = tf.data.Dataset.list_files(str(root / "*" / "*.jpg"), shuffle=False)
    n = N_PER_CLASS * len(CLASS_NAMES)
    ds = files.shuffle(n, seed=1, reshuffle_each_iteration=False)
    ds = ds.map(process_path, num_parallel_calls=AUTOTUNE).cache()
    ds = ds.shuffle(n)
    ds = ds.map(augment, num_parallel_calls=AUTOTUNE)
    return ds.batch(BATCH_SIZE, drop_remainder=True).prefetch(AUTOTUNE)


def make_model():
    return keras.Sequential([
        layers.Input((IMG_SIZE, IMG_SIZE, 3)),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(len(CLASS_NAMES)),
    ])


class StepTimer(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.times = []
        self.last = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last = now


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        make_photos(root)
        train_ds = make_dataset(root)
        model = make_model()
        model.compile(optimizer=keras.optimizers.Adam(2e-3),
                      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        timer = StepTimer()
        model.fit(train_ds, epochs=EPOCHS, verbose=2, callbacks=[timer])
        print(f"ms per step: {np.median(timer.times[10:]) * 1e3:.2f}")
