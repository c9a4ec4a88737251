"""Learns the next value of a sensor, on four windows of its readings at a time.

With --together, Keras runs so many batches in one call. An observed step is such a call then, so
compare the time of an epoch, not of a step.
"""

import argparse
import time

import keras
import numpy as np

WINDOW = 24
BATCH = 4


def windows(count):
    """Windows of a noisy wave, and the value after each; [count, WINDOW] and [count, 1]."""
    random = np.random.default_rng(0)
    length = count + WINDOW
    series = np.sin(np.arange(length) / 7) + 0.1 * random.standard_normal(length)
    every = np.lib.stride_tricks.sliding_window_view(series.astype(np.float32), WINDOW + 1)
    return every[:count, :-1], every[:count, -1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--together", type=int, default=1)
    options = parser.parse_args()

    keras.utils.set_random_seed(0)
    inputs, labels = windows(4096)
    model = keras.Sequential(
        [keras.layers.Dense(32, "relu"), keras.layers.Dense(32, "relu"), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.01), "mse", steps_per_execution=options.together)
    for epoch in range(options.epochs):
        start = time.perf_counter()
        history = model.fit(inputs, labels, batch_size=BATCH, verbose=0)
        taken = time.perf_counter() - start
        print(f"epoch {epoch}  loss {history.history['loss'][0]:.4f}  {taken:.2f} s", flush=True)


if __name__ == "__main__":
    main()
