"""A bag-of-words classifier in JAX, its sentences and its training loop."""

import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

WORDS = [f"word{i}" for i in range(5000)]
BUCKETS = 5000
LENGTH = 64


def load(count):
    """Random sentences of known words, and a class of each."""
    random = np.random.default_rng(0)
    lengths = random.integers(LENGTH // 2, LENGTH, count)
    texts = [" ".join(WORDS[i] for i in random.integers(0, len(WORDS), n)) for n in lengths]
    return texts, random.integers(0, 2, count)


def init(key, width=16, hidden=768):
    """The parameters."""
    keys = jax.random.split(key, 4)
    return {
        "embedding": 0.1 * jax.random.normal(keys[0], (BUCKETS + 1, width)),
        "first": 0.1 * jax.random.normal(keys[1], (width, hidden)),
        "second": 0.02 * jax.random.normal(keys[2], (hidden, hidden)),
        "output": 0.1 * jax.random.normal(keys[3], (hidden, 2)),
    }


def loss_of(params, words, labels):
    """Mean cross entropy; word 0 is padding."""
    known = (words > 0)[:, :, None]
    mean = (params["embedding"][words] * known).sum(1) / known.sum(1)
    hidden = jax.nn.gelu(jax.nn.gelu(mean @ params["first"]) @ params["second"])
    scores = jax.nn.log_softmax(hidden @ params["output"])
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


@functools.partial(jax.jit, donate_argnums=0)
def train_step(params, words, labels):
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(params, words, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


def train(batch_of, labels, batch, steps):
    """Train, and print the median step.

    Args:
        batch_of: Returns the bucket of each word of some sentences.
        labels: The class of each sentence.
        batch: Sentences in a batch.
        steps: How many.
    """
    params, times = init(jax.random.key(0)), []
    for step in range(steps):
        start = time.perf_counter()
        chosen = [(step * batch + i) % len(labels) for i in range(batch)]
        params, loss = train_step(params, batch_of(chosen), labels[chosen])
        value = float(loss)
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
