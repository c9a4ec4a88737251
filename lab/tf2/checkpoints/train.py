"""Trains a classifier with Keras' fit, and keeps its best state in a file."""

import argparse
import tempfile
from pathlib import Path

import keras
import numpy as np

IMAGES, SIDE, CLASSES = 1920, 16, 10


def data():
    """Random images and labels."""
    random = np.random.default_rng(0)
    images = random.random([IMAGES, SIDE, SIDE, 3], np.float32)
    return images, random.integers(0, CLASSES, IMAGES)


def build():
    """Two convolutions and a dense layer that holds most of the weights."""
    model = keras.Sequential(
        [
            keras.Input([SIDE, SIDE, 3]),
            keras.layers.Conv2D(16, 3, activation="relu", padding="same"),
            keras.layers.Conv2D(16, 3, activation="relu", padding="same"),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss, metrics=["accuracy"])
    return model


def save_frequency(text):
    return text if text == "epoch" else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--save", type=save_frequency, default="epoch", help="'epoch' or batches")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        keeps = keras.callbacks.ModelCheckpoint(
            Path(folder) / "best.keras", monitor="loss", save_best_only=False,
            save_freq=options.save,
        )  # fmt: skip
        images, labels = data()
        build().fit(
            images, labels, options.batch, epochs=options.epochs, callbacks=[keeps], verbose=2
        )


if __name__ == "__main__":
    main()
