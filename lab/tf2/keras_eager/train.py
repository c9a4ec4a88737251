"""Trains a recommender with Keras' fit, and saves its best state at the end."""

import argparse
import tempfile
from pathlib import Path

import keras
import shop


def build(options):
    """The compiled model."""
    model = shop.MODELS[options.model](options.width, options.depth)
    model.compile(
        keras.optimizers.Adam(options.rate),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
        run_eagerly=options.debug,
    )
    return model


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=shop.MODELS, default="mixture")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--depth", type=int, default=4, help="experts or crosses")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--debug", action="store_true", help="run layers in Python")
    return parser.parse_args()


def main():
    options = parse()
    columns, bought = shop.purchases(options.rows)
    model = build(options)
    history = model.fit(columns, bought, options.batch, epochs=options.epochs, verbose=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{options.model}.weights.h5"
        model.save_weights(path)
        print(f"loss {history.history['loss'][-1]:.3f}, {path.stat().st_size} bytes of weights")


if __name__ == "__main__":
    main()
