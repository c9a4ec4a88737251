"""Leaf disease classifier: JPEG photos on disk -> small residual CNN, trained with model.fit."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

NUM_IMAGES = 640
CLASSES = 6
PHOTO = 224
SIDE = 72
CROP = 64
BATCH = 32
SHUFFLE = 128
EPOCHS = 8
AUTO = tf.data.AUTOTUNE


def write_photos(root):
    rng = np.random.default_rng(7)
    paths, labels = [], []
    palette = rng.uniform(60, 200, size=(CLASSES, 3))
    yy, xx = np.mgrid[0:PHOTO, 0:PHOTO] / PHOTO
    for i in range(NUM_IMAGES):
        c = int(rng.integers(CLASSES))
        freq = 4 + 3 * c
        veins = np.sin(freq * (xx + rng.normal(0, 0.1)) * 6.28) * np.cos(freq * yy * 6.28)
        img = palette[c] + 30 * veins[..., None] + rng.normal(0, 18, size=(PHOTO, PHOTO, 3))
        data = tf.io.encode_jpeg(np.clip(img, 0, 255).astype(np.uint8), quality=92).numpy()
        path = os.path.join(root, f"leaf_{i:05d}.jpg")
        with open(path, "wb") as fh:
            fh.write(data)
        paths.append(path)
        labels.append(c)
    return np.array(paths), np.array(labels, dtype="int32")


def load_bytes(path, label):
    return tf.io.read_file(path), label


def decode(raw, label):
    img = tf.io.decode_jpeg(raw, channels=3)
    img = tf.image.resize(img, (SIDE, SIDE), method="area")
    return img / 127.5 - 1.0, label


def augment(img, label):
    img = tf.image.random_crop(img, (CROP, CROP, 3))
    img = tf.image.random_flip_left_right(img)
    return img, label


def build_dataset(paths, labels):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(load_bytes, num_parallel_calls=AUTO)
    ds = ds.map(decode, num_parallel_calls=AUTO)
    ds = ds.cache()
    ds = ds.shuffle(SHUFFLE, seed=1)
    ds = ds.map(augment, num_parallel_calls=AUTO)
    return ds.batch(BATCH, drop_remainder=True).prefetch(AUTO)


def res_block(x, width, stride):
    skip = layers.Conv2D(width, 1, strides=stride, use_bias=False)(x)
    y = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    return layers.ReLU()(layers.Add()([skip, y]))


def build_model():
    inp = keras.Input((CROP, CROP, 3))
    x = layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(inp)
    x = res_block(x, 24, 2)
    x = res_block(x, 40, 2)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(CLASSES)(x))


class StepClock(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.laps, self.last = [], time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        self.laps.append(1e3 * (now - self.last))
        self.last = now

    def on_train_end(self, logs=None):
        print(f"{len(self.laps)} steps, median {np.median(self.laps):.1f} ms, mean {np.mean(self.laps[1:]):.1f} ms")


def main():
    keras.utils.set_random_seed(3)
    with tempfile.TemporaryDirectory() as root:
        paths, labels = write_photos(root)
        train = build_dataset(paths, labels)
        model = build_model()
        model.compile(
            optimizer=keras.optimizers.AdamW(2e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        model.fit(train, epochs=EPOCHS, verbose=2, callbacks=[StepClock()])


if __name__ == "__main__":
    main()
