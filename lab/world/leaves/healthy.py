"""Leaf outline classification with Keras fit: random augmentation every epoch, validation at intervals."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

STEPS = int(os.environ.get("STEPS", "600"))
SIDE, CLASSES, BATCH, N_TRAIN = 32, 6, 48, 2400


def make_leaves(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    ys, xs = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j]
    r, a = np.hypot(xs, ys), np.arctan2(ys, xs)
    images = np.empty((n, SIDE, SIDE, 1), "uint8")
    for i, c in enumerate(labels):
        outline = 0.55 + 0.15 * np.cos((c + 2) * a + rng.uniform(0, 6.28))
        img = 200.0 * (r < outline) + rng.normal(0, 35, (SIDE, SIDE)) + 20
        images[i, ..., 0] = np.clip(img, 0, 255)
    return images, labels.astype("int32")


def decode(image, label):
    return tf.cast(image, tf.float32) / 127.5 - 1.0, label


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.2)
    padded = tf.pad(image, [[3, 3], [3, 3], [0, 0]], constant_values=-1.0)
    return tf.image.random_crop(padded, [SIDE, SIDE, 1]), label


def train_pipeline(images, labels):
    return (tf.data.Dataset.from_tensor_slices((images, labels))
            .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
            .cache()
            .shuffle(N_TRAIN, seed=3)
            .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH, drop_remainder=True)
            .repeat()
            .prefetch(tf.data.AUTOTUNE))


def build():
    inp = keras.Input((SIDE, SIDE, 1))
    h = layers.Conv2D(16, 3, padding="same", activation="relu")(inp)
    h = layers.MaxPooling2D()(h)
    for width in (32, 48):
        h = layers.Conv2D(width, 3, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization()(h)
        h = layers.ReLU()(h)
        h = layers.MaxPooling2D()(h)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.2)(h)
    return keras.Model(inp, layers.Dense(CLASSES, activation="softmax")(h))


class EpochPrinter(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        text = " ".join(f"{k} {float(v):.4f}" for k, v in sorted(logs.items()))
        print(f"epoch {epoch + 1} {text}", flush=True)


def main():
    keras.utils.set_random_seed(0)
    train = train_pipeline(*make_leaves(N_TRAIN, 1))
    valid = tf.data.Dataset.from_tensor_slices(make_leaves(480, 2)).map(decode).batch(96).cache()
    model = build()
    per_epoch = min(STEPS, N_TRAIN // BATCH)
    schedule = keras.optimizers.schedules.CosineDecay(2e-3, max(STEPS, 1))
    model.compile(optimizer=keras.optimizers.AdamW(schedule, weight_decay=1e-3),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, steps_per_epoch=per_epoch, epochs=max(1, STEPS // per_epoch),
              validation_data=valid, validation_freq=3, verbose=0, callbacks=[EpochPrinter()])


if __name__ == "__main__":
    main()
