"""Trains a dense network with JAX."""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import turn

BLOCKS = 5


def predict(params, inputs):
    hidden = inputs.astype(jnp.bfloat16)
    for weights in params[:-1]:
        hidden = jax.nn.relu(hidden @ weights)
    return hidden @ params[-1]


def tanh_on_host(inputs):
    return jax.pure_callback(np.tanh, jax.ShapeDtypeStruct(inputs.shape, inputs.dtype), inputs)


TRANSFORMS = {"none": lambda inputs: inputs, "device": jnp.tanh, "host": tanh_on_host}


def train_step(params, inputs, is_real, transform):
    inputs = TRANSFORMS[transform](inputs)

    def loss_of(params):
        squares = (predict(params, inputs) - 1).astype(jnp.float32) ** 2
        return (squares * is_real[:, None]).sum() / (is_real.sum() * squares.shape[1])

    loss, gradients = jax.value_and_grad(loss_of)(params)
    return [p - (0.1 * g).astype(p.dtype) for p, g in zip(params, gradients, strict=True)], loss


def options_of():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("steps", 60), ("rows", 8192), ("width", 4096), ("layers", 6)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lengths", type=int, default=1, help="of batches")
    parser.add_argument("--padded", action="store_true", help="pad batches to one length")
    parser.add_argument("--on-host", action="store_true", help="copy the inputs in each step")
    parser.add_argument("--watch", action="store_true", help="read loss and weights in each step")
    parser.add_argument("--donate", action="store_true", help="reuse the memory of the weights")
    parser.add_argument("--tanh", choices=TRANSFORMS, default="none", help="of the inputs")
    return parser.parse_args()


class Trainer:
    def __init__(self, options):
        self.options = options
        keys = jax.random.split(jax.random.key(0), options.layers)
        shape, scale = (options.width, options.width), options.width**-0.5
        self.params = [(jax.random.normal(key, shape) * scale).astype(jnp.bfloat16) for key in keys]
        host = np.random.default_rng(0).normal(size=(options.rows, options.width))
        self.inputs = host.astype(np.float32)
        if not options.on_host:
            self.inputs = jnp.asarray(self.inputs)
        self.train_step = jax.jit(
            train_step, static_argnums=(3,), donate_argnums=(0,) if options.donate else ()
        )

    def step(self, number):
        rows, lengths = self.options.rows, self.options.lengths
        length = rows - 8 * (number // 5 % lengths if number % 5 == 4 else 0)
        used = rows if self.options.padded else length
        inputs = self.inputs if used == rows else self.inputs[:used]
        is_real = np.arange(used) < length
        self.params, loss = self.train_step(self.params, inputs, is_real, self.options.tanh)
        if self.options.watch:
            self.largest = [float(jnp.abs(weights).max()) for weights in self.params]
        return loss


def main():
    options = options_of()
    turn.take()
    trainer, times, started = Trainer(options), [], None
    block = max(options.steps // (2 * BLOCKS), 1)
    first = max(options.steps - BLOCKS * block, 0)
    for number in range(options.steps):
        if number >= first and (number - first) % block == 0:
            jax.block_until_ready(trainer.params)
            now = time.perf_counter()
            if started is not None:
                times.append((now - started) / block)
            started = now
        loss = trainer.step(number)
        if number == 0:
            first_loss = loss
    jax.block_until_ready(trainer.params)
    times.append((time.perf_counter() - started) / block)
    print(f"loss {float(first_loss):.6g} to {float(loss):.6g}")
    print("ms per step", *(f"{1000 * each:.4f}" for each in times), flush=True)


if __name__ == "__main__":
    main()
