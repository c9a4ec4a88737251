"""Trains a classifier in JAX on recordings that a generator augments."""

import argparse
import queue
import statistics
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

CLIPS, LENGTH, CLASSES = 512, 8192, 10


class Recordings:
    """Sounds, each of which is cut, mixed with noise and turned into a spectrogram."""

    def __init__(self, batch):
        self.random = np.random.default_rng(0)
        self.clips = self.random.standard_normal([CLIPS, 2 * LENGTH], np.float32)
        self.labels = self.random.integers(0, CLASSES, CLIPS)
        self.batch = batch

    def spectrograms(self, chosen):
        start = self.random.integers(0, LENGTH)
        sounds = self.clips[chosen, start : start + LENGTH]
        sounds = sounds + 0.1 * self.random.standard_normal(sounds.shape, np.float32)
        frames = sounds.reshape(len(sounds), -1, 256) * np.hanning(256).astype(np.float32)
        return np.log1p(np.abs(np.fft.rfft(frames))).astype(np.float32)

    def batches(self):
        while True:
            chosen = self.random.integers(0, CLIPS, self.batch)
            yield self.spectrograms(chosen), self.labels[chosen]


def ahead(batches, count=2):
    """Batches that a thread prepares while the training computes."""
    ready = queue.Queue(count)

    def fill():
        for batch in batches:
            ready.put(batch)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield ready.get()


def init(key, width):
    """The parameters of three dense layers."""
    sizes = [LENGTH // 256 * 129, width, width, CLASSES]
    keys = jax.random.split(key, len(sizes))
    return [
        {"w": jax.random.normal(k, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}
        for k, i, o in zip(keys, sizes, sizes[1:], strict=False)
    ]


def loss_of(params, sounds, labels):
    """Mean cross entropy."""
    hidden = sounds.reshape(len(sounds), -1)
    for layer in params[:-1]:
        hidden = jax.nn.relu(hidden @ layer["w"] + layer["b"])
    scores = jax.nn.log_softmax(hidden @ params[-1]["w"] + params[-1]["b"])
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


@jax.jit
def train_step(params, sounds, labels):
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(params, sounds, labels)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), loss


class Progress:
    """Shows the mean of the last losses, as progress bars do."""

    def __init__(self):
        self.mean, self.times, self.start = 0.0, [], time.perf_counter()

    def add(self, loss):
        self.mean = 0.9 * self.mean + 0.1 * float(loss)
        self.times.append(time.perf_counter() - self.start)
        self.start = time.perf_counter()
        if len(self.times) % 20 == 0:
            print(f"step {len(self.times):3d}  loss {self.mean:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--ahead", type=int, default=0, help="batches prepared by a thread")
    options = parser.parse_args()

    batches, progress = Recordings(options.batch).batches(), Progress()
    if options.ahead:
        batches = ahead(batches, options.ahead)
    params = init(jax.random.key(0), options.width)
    for _, (sounds, labels) in zip(range(options.steps), batches, strict=False):
        params, loss = train_step(params, sounds, labels)
        progress.add(loss)
    print(f"median step {1000 * statistics.median(progress.times[5:]):.1f} ms")


if __name__ == "__main__":
    main()
