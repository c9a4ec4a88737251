"""A jitted step. With 'bare', jax.profiler watches five steps."""

import sys
import time

import jax
import jax.numpy as jnp
from bare import report, watched

weights = jnp.ones([256, 256])
images = jnp.ones([64, 256])


@jax.jit
def update(weights):
    return weights - 0.01 * jax.grad(lambda w: jnp.square(images @ w).mean())(weights)


class Bare:
    def start(self):
        import tempfile  # noqa: PLC0415

        jax.profiler.start_trace(tempfile.mkdtemp())

    def step(self):
        pass

    def stop(self, _folder):
        jax.profiler.stop_trace()


def step():
    global weights  # noqa: PLW0603 - a training script's own style
    weights = update(weights).block_until_ready()


report(watched(step, Bare() if "bare" in sys.argv else None, clock=time.perf_counter_ns))
