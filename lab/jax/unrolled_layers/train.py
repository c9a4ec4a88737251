"""Trains a deep residual network on random vectors."""

import argparse
import functools
import statistics
import time

import jax
import jax.numpy as jnp
from network import init, layer


def forward(params, inputs, scan):
    """Scores of the classes."""
    hidden = inputs @ params["input"]
    if scan:
        hidden, _ = jax.lax.scan(lambda h, p: (layer(h, p), None), hidden, params["layers"])
    else:
        for i in range(len(params["layers"]["scale"])):
            hidden = layer(hidden, jax.tree.map(lambda leaf, i=i: leaf[i], params["layers"]))
    return hidden @ params["output"]


def loss_of(params, inputs, labels, scan):
    scores = jax.nn.log_softmax(forward(params, inputs, scan))
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


@functools.partial(jax.jit, static_argnames="scan", donate_argnums=0)
def train_step(params, inputs, labels, rate, scan):
    loss, gradients = jax.value_and_grad(loss_of)(params, inputs, labels, scan)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradients), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--scan", action="store_true", help="compile one layer, not a copy of each")
    options = parser.parse_args()

    keys = jax.random.split(jax.random.key(0), 3)
    params = init(keys[0], options.layers, options.width)
    inputs = jax.random.normal(keys[1], (options.batch, options.width))
    labels = jax.random.randint(keys[2], (options.batch,), 0, 10)
    times = []
    for step in range(options.steps):
        begin = time.perf_counter()
        params, loss = train_step(params, inputs, labels, options.rate, options.scan)
        loss.block_until_ready()
        times.append(time.perf_counter() - begin)
        if step % 50 == 49:
            print(f"step {step + 1}  loss {loss:.3f}", flush=True)
    print(f"first step {times[0]:.1f} s, median {1e3 * statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
