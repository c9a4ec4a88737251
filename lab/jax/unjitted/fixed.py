"""Updates the parameters in one compiled step."""

import argparse
import functools
import statistics
import time

import jax
import sums


class Momentum:
    """Gradient descent with momentum."""

    def __init__(self, rate, momentum=0.9):
        self.rate, self.momentum = rate, momentum

    def init(self, params):
        return params, jax.tree.map(jax.numpy.zeros_like, params)

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
    def update(self, state, numbers, targets):
        params, velocity = state
        loss, gradients = jax.value_and_grad(sums.loss_of)(params, numbers, targets)
        velocity = jax.tree.map(lambda v, g: self.momentum * v + g, velocity, gradients)
        params = jax.tree.map(lambda p, v: p - self.rate * v, params, velocity)
        return (params, velocity), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()

    optimizer, times = Momentum(options.rate), []
    state = optimizer.init(sums.init(jax.random.key(0)))
    for step, (numbers, targets) in enumerate(sums.batches(options.batch, options.steps)):
        start = time.perf_counter()
        state, loss = optimizer.update(state, numbers, targets)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
