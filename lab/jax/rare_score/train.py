"""Fits a network to a wave, and scores it on held-out points every 50 steps."""

import argparse
import functools
import statistics
import time

import jax
import jax.numpy as jnp

WIDTH, EVERY = 128, 50


def init(key):
    """The parameters of a network with two hidden layers."""
    sizes = [1, WIDTH, WIDTH, 1]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (n, m)) / n**0.5, jnp.zeros(m))
        for k, n, m in zip(keys, sizes, sizes[1:], strict=False)
    ]


def predict(params, points):
    hidden = points
    for weights, bias in params[:-1]:
        hidden = jnp.tanh(hidden @ weights + bias)
    weights, bias = params[-1]
    return hidden @ weights + bias


def error(params, points):
    return jnp.mean((predict(params, points) - jnp.sin(6 * points)) ** 2)


def train_step(params, score, step, points, held_out, *, branch):
    """One step of gradient descent, and the score of the parameters if it is due."""
    loss, gradients = jax.value_and_grad(error)(params, points)
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients)
    is_due = step % EVERY == 0
    if branch == "where":
        score = jnp.where(is_due, error(params, held_out), score)
    else:
        score = jax.lax.cond(is_due, lambda: error(params, held_out), lambda: score)
    return params, score, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--branch", choices=("where", "cond"), default="where")
    options = parser.parse_args()

    update = jax.jit(functools.partial(train_step, branch=options.branch))
    key = jax.random.key(0)
    params, score, times = init(key), jnp.zeros(()), []
    held_out = jnp.linspace(-1, 1, 16_384)[:, None]
    batches = list(jax.random.uniform(key, (16, options.batch, 1), minval=-1))
    for step in range(options.steps):
        points = batches[step % len(batches)]
        start = time.perf_counter()
        params, score, loss = update(params, score, step, points, held_out)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if step % EVERY == 0:
            print(f"step {step:3d}  loss {loss:.4f}  score {score:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
