"""A small network in JAX. Prints the time of its loop, from the first step to the last.

python benchmarks/programs/jax_loop.py LAYERS STEPS
"""

import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["NPROC"] = "1"  # threads of XLA's pools

import jax
import jax.numpy as jnp

LAYERS, STEPS = map(int, sys.argv[1:])

weights = [jnp.eye(64) for _ in range(LAYERS)]
batch = jnp.ones([32, 64])


def loss(weights):
    net = batch
    for layer in weights:
        net = jnp.tanh(net @ layer)
    return jnp.square(net).mean()


@jax.jit
def train(weights):
    value, gradients = jax.value_and_grad(loss)(weights)
    return [w - 0.01 * g for w, g in zip(weights, gradients, strict=True)], value


start = time.perf_counter()
for _ in range(STEPS):
    weights, value = train(weights)
    value.block_until_ready()
print(time.perf_counter() - start)
