"""Trains step by step in eager mode: each small operation is launched from Python."""

import argparse
import statistics
import time

import quotes
import tensorflow as tf


class Trainer:
    def __init__(self, rate):
        self.model = quotes.Predictor()
        self.optimizer = tf.keras.optimizers.Adam(rate)

    def train_step(self, windows, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(windows) - targets))
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()

    trainer, times = Trainer(options.rate), []
    for step, (windows, targets) in enumerate(quotes.batches(options.batch, options.steps)):
        start = time.perf_counter()
        loss = trainer.train_step(windows, targets)
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {float(loss):.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
