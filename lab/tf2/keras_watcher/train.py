"""Trains a network that tells faulty machines from sound ones by their vibrations."""

import argparse

import keras
import numpy as np


def signals(count, length, seed):
    """Vibrations of three sensors, and whether each machine is faulty: its hum has an overtone."""
    source = np.random.default_rng(seed)
    faulty = source.integers(0, 2, count)
    time = np.linspace(0, 1, length)
    pitch = source.uniform(20, 60, (count, 1))
    hum = np.sin(2 * np.pi * pitch * time) + faulty[:, None] * 0.3 * np.sin(
        6 * np.pi * pitch * time
    )
    noise = source.normal(0, 0.5, (count, length, 3))
    return (hum[:, :, None] + noise).astype(np.float32), faulty.astype(np.float32)


class Recall:
    """Follows the share of the held-out faulty machines that are found."""

    def __init__(self, model, held_out):
        self.model = model
        self.vibrations, self.faulty = held_out
        self.curve = []

    def measure(self, *_, **__):
        scores = self.model.predict(self.vibrations, batch_size=64, verbose=0)[:, 0]
        self.curve.append(float((scores > 0)[self.faulty > 0].mean()))

    def after(self, what):
        """A callback that measures after each batch or epoch."""
        event = {"batch": "on_train_batch_end", "epoch": "on_epoch_end"}[what]
        return keras.callbacks.LambdaCallback(**{event: self.measure})


def build(options):
    """The compiled model."""
    layers = [keras.Input((options.length, 3))]
    for width in (options.width, 2 * options.width):
        layers += [
            keras.layers.Conv1D(width, 9, padding="same", activation="relu"),
            keras.layers.MaxPooling1D(4),
        ]
    layers += [keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(options.rate), loss=loss)
    return model


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watch", choices=["batch", "epoch"], default="epoch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--machines", type=int, default=1920)
    parser.add_argument("--held-out", type=int, default=192)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--rate", type=float, default=1e-3)
    return parser.parse_args()


def main():
    options = parse()
    model = build(options)
    recall = Recall(model, signals(options.held_out, options.length, seed=1))
    vibrations, faulty = signals(options.machines, options.length, seed=0)
    history = model.fit(
        vibrations,
        faulty,
        options.batch,
        epochs=options.epochs,
        verbose=2,
        callbacks=[recall.after(options.watch)],
    )
    print(f"loss {history.history['loss'][-1]:.3f}, recall {recall.curve[-1]:.2f}")


if __name__ == "__main__":
    main()
