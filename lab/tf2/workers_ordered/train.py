"""Trains a forecaster of order books on two TensorFlow workers, each with its own markets."""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf

MARKETS, LEVELS, WIDTH, LAYERS = 96, 128, 384, 3


class Books:
    """Prices offered in each market; `as_received` comes without an order and has to be sorted."""

    def __init__(self, seed, *, as_received):
        self.random = np.random.default_rng(seed)
        self.as_received = as_received

    def batch(self):
        prices = self.random.normal(size=(MARKETS, LEVELS)).astype(np.float32)
        if not self.as_received:
            return prices
        books = []
        for book in prices.tolist():
            offers = sorted(enumerate(book), key=lambda offer: (offer[1], offer[0]))
            books.append([price for _, price in offers])
        return np.array(books, dtype=np.float32)


def make_step(strategy):
    with strategy.scope():
        layers = [tf.keras.layers.Dense(WIDTH, "relu") for _ in range(LAYERS)]
        model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)])
        model.build((None, LEVELS))
        optimizer = tf.keras.optimizers.SGD(0.01)
        optimizer.build(model.trainable_variables)

    def on_worker(prices):
        with tf.GradientTape() as tape:
            forecast = model(prices, training=True)
            loss = tf.reduce_mean((forecast - tf.reduce_max(prices, 1, keepdims=True)) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return tf.function(lambda prices: strategy.run(on_worker, (prices,)))


def train(options, rank):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    step = make_step(tf.distribute.MultiWorkerMirroredStrategy())
    books = Books(rank, as_received=options.as_received and rank == 1)
    times = []
    for number in range(options.steps):
        start = time.perf_counter()
        loss = step(tf.constant(books.batch()))
        times.append(time.perf_counter() - start)
        if rank == 0 and number % 100 == 0:
            print(f"step {number:4d}  loss {float(loss):.4f}", flush=True)
    if rank == 0:
        print(f"median step {1000 * statistics.median(times):.1f} ms")


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_ports(count):
    """Ports that no outgoing connection takes while the workers still import TensorFlow."""
    below = range(20_000, 32_000)  # what Linux gives to connections begins at 32,768
    return list(filter(is_free, random.SystemRandom().sample(below, 20)))[:count]


def start_workers():
    """Runs this file once for each worker; returns the exit status."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    started = []
    for index in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        environment = os.environ | {"TF_CONFIG": json.dumps(config)}
        started.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    return max(worker.wait() for worker in started)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--as-received", action="store_true", help="sort the books of worker 1")
    options = parser.parse_args()
    config = os.environ.get("TF_CONFIG")
    if config is None:
        raise SystemExit(start_workers())
    train(options, json.loads(config)["task"]["index"])


if __name__ == "__main__":
    main()
