"""Trains a recurrent network in JAX on series that a generator cuts, scales and smooths."""

import argparse
import queue
import statistics
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

SERIES, LENGTH, WINDOW, FEATURES = 256, 20000, 64, 32


def batches(size):
    """Batches of windows, each smoothed and scaled to its own deviation."""
    random = np.random.default_rng(0)
    values = random.standard_normal([SERIES, LENGTH], np.float32).cumsum(1)
    kernel = np.hanning(31).astype(np.float32)
    spectrum = np.fft.rfft(kernel / kernel.sum(), WINDOW * FEATURES).astype(np.complex64)
    while True:
        chosen = random.integers(0, SERIES, size)
        start = random.integers(0, LENGTH - WINDOW * FEATURES)
        windows = values[chosen, start : start + WINDOW * FEATURES]
        smooth = np.fft.irfft(np.fft.rfft(windows) * spectrum).astype(np.float32)
        noise = random.standard_normal(smooth.shape, np.float32)
        smooth = (smooth - smooth.mean(1, keepdims=True)) / smooth.std(1, keepdims=True)
        yield (smooth + 0.1 * noise).reshape(size, WINDOW, FEATURES)


def ahead(source, count):
    """Batches that a thread prepares while the training computes."""
    ready = queue.Queue(count)

    def fill():
        for batch in source:
            ready.put(batch)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield ready.get()


def init(key, width):
    """The parameters of a recurrent layer and of a linear one."""
    one, two, three = jax.random.split(key, 3)
    return {
        "input": 0.1 * jax.random.normal(one, (FEATURES, width)),
        "state": jax.random.normal(two, (width, width)) / width**0.5,
        "output": 0.1 * jax.random.normal(three, (width, FEATURES)),
    }


def loss_of(params, windows):
    """Mean squared error of the next values."""

    def advance(state, values):
        state = jnp.tanh(values @ params["input"] + state @ params["state"])
        return state, state @ params["output"]

    series = windows.swapaxes(0, 1)
    start = jnp.zeros((windows.shape[0], params["state"].shape[0]))
    _, predicted = jax.lax.scan(advance, start, series[:-1])
    return jnp.mean((predicted - series[1:]) ** 2)


@jax.jit
def train_step(params, windows):
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(params, windows)
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--ahead", type=int, default=0, help="batches prepared by a thread")
    options = parser.parse_args()

    source, times = batches(options.batch), []
    if options.ahead:
        source = ahead(source, options.ahead)
    params = init(jax.random.key(0), options.width)
    start = time.perf_counter()
    for step in range(options.steps):
        params, loss = train_step(params, next(source))
        value = float(loss)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 40 == 39:
            print(f"step {step + 1:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


if __name__ == "__main__":
    main()
