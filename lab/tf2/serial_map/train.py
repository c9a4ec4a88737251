"""Trains a classifier on photos that a tf.data pipeline decodes and augments."""

import argparse

import keras
import numpy as np
import tensorflow as tf

PHOTOS, SIDE, CROP, CLASSES = 512, 160, 128, 10


def load():
    """Photos as JPEG, as they would lie in files, and labels."""
    random = np.random.default_rng(0)
    blocks = random.integers(0, 256, [PHOTOS, SIDE // 8, SIDE // 8, 3], np.uint8)
    photos = [tf.io.encode_jpeg(block.repeat(8, 0).repeat(8, 1)).numpy() for block in blocks]
    return photos, random.integers(0, CLASSES, PHOTOS)


def augment(photo, label):
    """Decode a photo, crop it at random, and change its colours at random."""
    image = tf.image.convert_image_dtype(tf.io.decode_jpeg(photo, channels=3), tf.float32)
    image = tf.image.random_crop(image, [CROP, CROP, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_hue(tf.image.random_saturation(image, 0.7, 1.3), 0.1)
    return tf.image.random_contrast(image, 0.7, 1.3), label


def build(width):
    """Two convolutions with a stride, so that the network keeps up with the photos."""
    model = keras.Sequential(
        [
            keras.Input([CROP, CROP, 3]),
            keras.layers.Conv2D(width, 5, strides=4, activation="relu"),
            keras.layers.Conv2D(width, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss, metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--parallel", action="store_true", help="several photos at a time")
    options = parser.parse_args()

    dataset = tf.data.Dataset.from_tensor_slices(load()).shuffle(PHOTOS)
    calls = tf.data.AUTOTUNE if options.parallel else None
    dataset = dataset.map(augment, num_parallel_calls=calls)
    dataset = dataset.batch(options.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    build(options.width).fit(dataset, epochs=options.epochs, verbose=2)


if __name__ == "__main__":
    main()
