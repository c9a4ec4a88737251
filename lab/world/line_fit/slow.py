"""Network that reads line width and position from noisy spectra of a Voigt line."""
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import voigt_profile

BINS = 128
BATCH = 256
STEPS = 400
AXIS = np.linspace(-6.0, 6.0, BINS).astype(np.float32)


def voigt_host(center, sigma, gamma):
    c, s, g = (np.asarray(a)[..., None] for a in (center, sigma, gamma))
    return voigt_profile(AXIS - c, s, g).astype(np.float32)


def line_shape(center, sigma, gamma):
    out = jax.ShapeDtypeStruct((BINS,), jnp.float32)
    return jax.pure_callback(voigt_host, out, center, sigma, gamma, vmap_method="sequential")


def simulate(key):
    """One spectrum with its labels (position, gaussian width, lorentzian width)."""
    k1, k2, k3, k4, k5 = jax.random.split(key, 5)
    center = jax.random.uniform(k1, minval=-2.0, maxval=2.0)
    sigma = jax.random.uniform(k2, minval=0.3, maxval=1.2)
    gamma = jax.random.uniform(k3, minval=0.05, maxval=0.8)
    line = line_shape(center, sigma, gamma)
    tilt = 0.02 * jax.random.normal(k4) * jnp.asarray(AXIS)
    noise = 0.02 * jax.random.normal(k5, (BINS,))
    return line + tilt + noise, jnp.stack([center, sigma, gamma])


def dense_init(key, m, n):
    return {"w": jax.random.normal(key, (m, n)) * np.sqrt(2.0 / m), "b": jnp.zeros(n)}


def init_params(key, width=640):
    k = jax.random.split(key, 4)
    return [dense_init(k[0], BINS, width), dense_init(k[1], width, width),
            dense_init(k[2], width, width), dense_init(k[3], width, 3)]


def network(params, x):
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, spectra, labels):
    return jnp.mean((network(params, spectra * 4) - labels) ** 2)


@jax.jit
def train_step(params, velocity, key):
    key, sub = jax.random.split(key)
    spectra, labels = jax.vmap(simulate)(jax.random.split(sub, BATCH))
    loss, grads = jax.value_and_grad(loss_fn)(params, spectra, labels)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity)
    return params, velocity, key, loss


@jax.jit
def check(params, key):
    spectra, labels = jax.vmap(simulate)(jax.random.split(key, 128))
    return jnp.abs(network(params, spectra * 4) - labels).mean(0)


def main():
    key, init = jax.random.split(jax.random.key(23))
    params = init_params(init)
    velocity = jax.tree.map(jnp.zeros_like, params)
    start = time.time()
    for step in range(1, STEPS + 1):
        params, velocity, key, loss = train_step(params, velocity, key)
        if step % 40 == 0:
            print(f"step {step:4d} loss {float(loss):.4f} time {time.time() - start:.2f}s", flush=True)
    print("mean error", np.round(np.asarray(check(params, jax.random.key(1))), 3))


if __name__ == "__main__":
    main()
