"""A network that predicts spectra from a few parameters, its data and its training loop."""

import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

POINTS = 2048
PARAMETERS = 8


def batches(batch, steps):
    """Random parameters, and the spectra that belong to them: some peaks each."""
    random = np.random.default_rng(0)
    axis = np.linspace(0, 1, POINTS, dtype=np.float32)
    inputs = random.random([1024, PARAMETERS], dtype=np.float32)
    spectra = sum(np.exp(-(((axis - peak[:, None]) / 0.02) ** 2)) for peak in inputs.T)
    for step in range(steps):
        start = step * batch % (len(inputs) - batch + 1)
        yield inputs[start : start + batch], spectra[start : start + batch]


def init(key, hidden=128):
    """The parameters of the network."""
    sizes = [PARAMETERS, hidden, hidden, POINTS]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"weights": jax.random.normal(k, (n, m)) / n**0.5, "bias": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params, inputs):
    """Spectra of some parameters."""
    hidden = inputs
    for layer in params[:-1]:
        hidden = jax.nn.gelu(hidden @ layer["weights"] + layer["bias"])
    return hidden @ params[-1]["weights"] + params[-1]["bias"]


def train(smooth, batch, steps):
    """Train on smoothed spectra, and print the median step.

    Args:
        smooth: Function that smooths spectra inside the compiled step.
        batch: Spectra in a batch.
        steps: How many.
    """

    def loss_of(params, inputs, spectra):
        return jnp.mean((predict(params, inputs) - smooth(spectra)) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def train_step(params, inputs, spectra):
        loss, gradients = jax.value_and_grad(loss_of)(params, inputs, spectra)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), loss

    params, times = init(jax.random.key(0)), []
    for step, (inputs, spectra) in enumerate(batches(batch, steps)):
        start = time.perf_counter()
        params, loss = train_step(params, inputs, spectra)
        value = float(loss)
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
