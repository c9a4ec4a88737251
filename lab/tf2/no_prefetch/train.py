"""Trains a classifier on images that a tf.data pipeline augments, a batch at a time."""

import argparse

import keras
import numpy as np
import tensorflow as tf

IMAGES, SIDE, CROP, CLASSES = 1024, 72, 64, 10


def load():
    """Images as they lie in memory, and labels."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, [IMAGES, SIDE, SIDE, 3], np.uint8), random.integers(
        0, CLASSES, IMAGES
    )


def augment(images, labels):
    """Crop a batch at random, and change its colours at random."""
    images = tf.image.convert_image_dtype(images, tf.float32)
    images = tf.image.random_crop(images, [tf.shape(images)[0], CROP, CROP, 3])
    images = tf.image.random_hue(tf.image.random_saturation(images, 0.7, 1.3), 0.1)
    return tf.image.random_contrast(images, 0.7, 1.3), labels


def pipeline(batch, ahead):
    """Batches of images.

    Args:
        batch: Images in a batch.
        ahead: Batches that are ready before the training asks for them.
    """
    dataset = tf.data.Dataset.from_tensor_slices(load()).shuffle(IMAGES)
    dataset = dataset.batch(batch, drop_remainder=True).map(augment)
    if ahead:
        dataset = dataset.prefetch(ahead)
    options = tf.data.Options()
    options.autotune.enabled = False  # its buffers once took all memory
    return dataset.with_options(options)


def build(width):
    """Convolutions that take longer than the augmentation."""
    model = keras.Sequential(
        [
            keras.Input([CROP, CROP, 3]),
            keras.layers.Conv2D(width, 3, strides=2, activation="relu"),
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
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--ahead", type=int, default=0)
    options = parser.parse_args()

    dataset = pipeline(options.batch, options.ahead)
    build(options.width).fit(dataset, epochs=options.epochs, verbose=2)


if __name__ == "__main__":
    main()
