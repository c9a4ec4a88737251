"""Trains a network that tells sounds apart by their spectrograms."""

import argparse

import keras
import numpy as np
import tensorflow as tf

SOUNDS, RATE, SECONDS, CLASSES = 384, 16_000, 2, 8
FRAME, HOP, BANDS = 1024, 256, 64


def load():
    """Sounds as they lie in memory, and labels."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, SOUNDS)
    noise = random.standard_normal([SOUNDS, RATE * SECONDS]).astype(np.float32)
    tones = np.sin(np.arange(RATE * SECONDS) * (0.05 + 0.05 * labels[:, None]))
    return (3000 * (noise + tones)).astype(np.int16), labels


class Spectrogram:
    """The logarithm of the power in bands as the ear hears them, centred for each band."""

    def __init__(self):
        self.bands = tf.signal.linear_to_mel_weight_matrix(
            BANDS, FRAME // 2 + 1, RATE, lower_edge_hertz=60.0, upper_edge_hertz=7600.0
        )

    def __call__(self, sound, label):
        sound = tf.cast(sound, tf.float32) / 32768
        spectrum = tf.signal.stft(sound, FRAME, HOP)
        power = tf.math.log(tf.abs(spectrum) ** 2 @ self.bands + 1e-6)
        mean, variance = tf.nn.moments(power, axes=[0])
        return (power - mean) / tf.sqrt(variance + 1e-6), label


def mask(powers, labels):
    """Blank a random band in a batch, so that the network uses all of them."""
    low = tf.random.uniform([], 0, BANDS - 8, tf.int32)
    kept = tf.logical_or(tf.range(BANDS) < low, tf.range(BANDS) >= low + 8)
    return powers * tf.cast(kept, tf.float32), labels


def pipeline(batch, *, cache):
    """Batches of spectrograms, without end.

    Args:
        batch: Sounds in a batch.
        cache: Keep the spectrograms in memory.
    """
    dataset = tf.data.Dataset.from_tensor_slices(load())
    dataset = dataset.map(Spectrogram(), num_parallel_calls=tf.data.AUTOTUNE)
    if cache:
        dataset = dataset.cache()
    dataset = dataset.shuffle(SOUNDS).repeat().batch(batch).map(mask)
    return dataset.prefetch(tf.data.AUTOTUNE)


def build(width):
    """Convolutions over time, compiled for training."""
    model = keras.Sequential(
        [
            keras.Input([None, BANDS]),
            keras.layers.Conv1D(width, 5, strides=2, activation="relu"),
            keras.layers.Conv1D(width, 5, strides=2, activation="relu"),
            keras.layers.GlobalMaxPooling1D(),
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
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--cache", action="store_true", help="keep spectrograms in memory")
    options = parser.parse_args()

    dataset = pipeline(options.batch, cache=options.cache)
    steps = SOUNDS // options.batch
    build(options.width).fit(dataset, epochs=options.epochs, steps_per_epoch=steps, verbose=2)


if __name__ == "__main__":
    main()
