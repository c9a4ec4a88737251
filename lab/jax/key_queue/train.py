"""Contrastive learning with a queue of keys from earlier batches, which are the negatives."""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

FEATURES, WIDTH, QUEUE, NEGATIVES = 32, 128, 60_000, 512


def init(key):
    """Parameters of the encoder, and the queue."""
    first, second, third = jax.random.split(key, 3)
    params = {
        "in": jax.random.normal(first, (FEATURES, WIDTH)) / FEATURES**0.5,
        "out": jax.random.normal(second, (WIDTH, WIDTH)) / WIDTH**0.5,
    }
    return params, jax.random.normal(third, (QUEUE, WIDTH))


def encode(params, rows):
    hidden = jnp.tanh(rows @ params["in"]) @ params["out"]
    return hidden / jnp.linalg.norm(hidden, axis=1, keepdims=True)


@jax.jit
def train_step(params, queries, keys, negatives):
    """One step of gradient descent: each query has one key, and the negatives."""

    def loss_of(params):
        encoded = encode(params, queries)
        positive = (encoded * keys).sum(1, keepdims=True)
        scores = jnp.concatenate([positive, encoded @ negatives.T], axis=1)
        return -jax.nn.log_softmax(scores / 0.2)[:, 0].mean()

    loss, gradients = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


@jax.jit
def draw(queue, key):
    return queue[jax.random.randint(key, (NEGATIVES,), 0, QUEUE)]


def enqueue(queue, place, keys):
    """The queue with the keys of a batch written over the oldest ones."""
    return jax.lax.dynamic_update_slice(queue, keys, (place, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--queue", choices=("copied", "donated"), default="copied")
    options = parser.parse_args()

    donated = (0,) if options.queue == "donated" else ()
    write = jax.jit(enqueue, donate_argnums=donated)
    encoder, random = jax.jit(encode), np.random.default_rng(0)
    images = random.standard_normal([16, options.batch, FEATURES]).astype(np.float32)
    key = jax.random.key(0)
    params, queue = init(key)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        batch = images[step % len(images)]
        keys = encoder(params, 0.9 * batch)
        negatives = draw(queue, jax.random.fold_in(key, step))
        params, loss = train_step(params, batch, keys, negatives)
        queue = write(queue, step * options.batch % (QUEUE - options.batch), keys)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
