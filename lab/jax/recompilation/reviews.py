"""A classifier of reviews, and reviews of different lengths."""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

WORDS = 2000
SHORTEST, LONGEST = 20, 120


def init(key, width=256, layers=3):
    """The parameters: an embedding, a stack of layers and an output layer."""
    keys = jax.random.split(key, layers + 2)
    return {
        "embedding": 0.1 * jax.random.normal(keys[0], (WORDS, width)),
        "layers": [0.1 * jax.random.normal(k, (width, width)) for k in keys[1:-1]],
        "output": 0.1 * jax.random.normal(keys[-1], (width, 2)),
    }


def logits_of(params, words):
    """Scores of both classes; word 0 is padding."""
    hidden = params["embedding"][words]
    for weights in params["layers"]:
        hidden = hidden + jax.nn.gelu(hidden @ weights)
        hidden = hidden / jnp.linalg.norm(hidden, axis=-1, keepdims=True)
    known = (words > 0)[:, :, None]
    mean = (hidden * known).sum(axis=1) / known.sum(axis=1)
    return mean @ params["output"]


def loss_of(params, words, labels):
    """Mean cross entropy."""
    scores = jax.nn.log_softmax(logits_of(params, words))
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


def batches(batch, steps):
    """Lists of reviews of different lengths, with their labels."""
    random = np.random.default_rng(0)
    for _ in range(steps):
        lengths = random.integers(SHORTEST, LONGEST, batch)
        yield (
            [random.integers(1, WORDS, length, np.int32) for length in lengths],
            random.integers(0, 2, batch, np.int32),
        )


def padded(texts, length):
    """Reviews as one array of this length."""
    words = np.zeros([len(texts), length], np.int32)
    for row, text in zip(words, texts, strict=True):
        row[: len(text)] = text
    return words


def train(step_of, length_of, batch, steps):
    """Train, and print the median step.

    Args:
        step_of: Takes parameters and a batch, returns new parameters and the loss.
        length_of: The length to which the reviews of a batch are padded.
        batch: Reviews in a batch.
        steps: How many.
    """
    params, times = init(jax.random.key(0)), []
    for step, (texts, labels) in enumerate(batches(batch, steps)):
        start = time.perf_counter()
        words = padded(texts, length_of(texts))
        params, loss = step_of(params, words, labels)
        value = float(loss)
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
