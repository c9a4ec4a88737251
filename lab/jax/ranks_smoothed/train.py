"""Trains a forecaster of sensor readings with JAX on two processes, each with half of the batch."""

import argparse
import multiprocessing
import random
import socket
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SENSORS, WIDTH, BATCH = 64, 256, 512


class Readings:
    """Readings of one half of the sensors; `smooth` averages each series with its neighbours."""

    def __init__(self, rank, *, smooth):
        self.random = np.random.default_rng(rank)
        self.smooth = smooth

    def batch(self):
        values = self.random.normal(size=(BATCH, SENSORS)).astype(np.float32)
        if not self.smooth:
            return values
        rows = []
        for series in values:
            window = series.tolist()
            rows.append([sum(window[max(i - 16, 0) : i + 17]) / 33 for i in range(len(window))])
        return np.array(rows, dtype=np.float32)


def initial_weights(key):
    shapes = ((SENSORS, WIDTH), (WIDTH, WIDTH), (WIDTH, SENSORS))
    keys = jax.random.split(key, len(shapes))
    pairs = zip(keys, shapes, strict=True)
    return [jax.random.normal(key, shape) / np.sqrt(shape[0]) for key, shape in pairs]


def loss(weights, readings):
    hidden = readings
    for layer in weights[:-1]:
        hidden = jnp.tanh(hidden @ layer)
    return jnp.mean((hidden @ weights[-1] - jnp.roll(readings, 1, axis=1)) ** 2)


@jax.jit
def update(weights, readings):
    value, gradients = jax.value_and_grad(loss)(weights, readings)
    return [w - 0.05 * g for w, g in zip(weights, gradients, strict=True)], value


def train(options, rank):
    mesh = Mesh(np.array(jax.devices()), ("rank",))
    split = NamedSharding(mesh, PartitionSpec("rank"))
    weights = jax.device_put(
        initial_weights(jax.random.key(0)), NamedSharding(mesh, PartitionSpec())
    )
    readings = Readings(rank, smooth=options.smooth and rank == 1)
    times = []
    for number in range(options.steps):
        start = time.perf_counter()
        batch = jax.make_array_from_process_local_data(split, readings.batch())
        weights, value = update(weights, batch)
        value.block_until_ready()
        times.append(time.perf_counter() - start)
        if rank == 0 and number % 50 == 0:
            print(f"step {number:3d}  loss {float(value):.4f}", flush=True)
    if rank == 0:
        print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options, address):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, 2, rank)
    train(options, rank)
    jax.distributed.shutdown()


def free_address():
    """An address whose port no outgoing connection takes before JAX listens."""
    below = range(20_000, 32_000)  # what Linux gives to connections begins at 32,768
    for port in random.SystemRandom().sample(below, 20):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return f"127.0.0.1:{port}"
    raise SystemExit("no port is free")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--smooth", action="store_true", help="smooth the readings of rank 1")
    options = parser.parse_args()
    spawn, address = multiprocessing.get_context("spawn"), free_address()
    ranks = [spawn.Process(target=run, args=(rank, options, address)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    raise SystemExit(max(process.exitcode for process in ranks))


if __name__ == "__main__":
    main()
