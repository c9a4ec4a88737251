"""Surrogate of a smooth simulator with a lazily applied curvature penalty, plain JAX."""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "300"))
DIN, WIDTH, BATCH = 8, 128, 96
REG_EVERY, REG_WEIGHT = 4, 2e-4


def simulator(x):
    a = np.sin(2 * x[:, 0]) * x[:, 1] + np.exp(-x[:, 2] ** 2)
    b = x[:, 3] * x[:, 4] - 0.5 * np.cos(3 * x[:, 5]) + 0.3 * x[:, 6] ** 2 * x[:, 7]
    return (a + b).astype(np.float32)


def make_runs(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, (n, DIN)).astype(np.float32)
    return x, simulator(x) + 0.05 * rng.standard_normal(n).astype(np.float32)


def init(key):
    sizes = [DIN, WIDTH, WIDTH, WIDTH, 1]
    params = []
    for k, a, b in zip(jax.random.split(key, len(sizes)), sizes[:-1], sizes[1:]):
        params.append({"w": jax.random.normal(k, (a, b)) * np.sqrt(1.0 / a), "b": jnp.zeros(b)})
    return params


def predict(params, x):
    h = x
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def curvature(params, x):
    """Squared Frobenius norm of the input Hessian."""
    hess = jax.hessian(predict, argnums=1)(params, x)
    return jnp.sum(hess ** 2)


def example_loss(params, x, y, with_reg):
    err = predict(params, x) - y
    huber = jnp.where(jnp.abs(err) < 1.0, 0.5 * err ** 2, jnp.abs(err) - 0.5)
    reg = jax.lax.cond(
        with_reg,
        lambda: REG_EVERY * REG_WEIGHT * curvature(params, x),
        lambda: 0.0)
    return huber + reg


def batch_loss(params, x, y, step):
    with_reg = step % REG_EVERY == 0
    losses = jax.vmap(example_loss, in_axes=(None, 0, 0, None))(params, x, y, with_reg)
    return losses.mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt, x, y, step):
    loss, grads = jax.value_and_grad(batch_loss)(params, x, y, step)
    t = step + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, opt["nu"], grads)
    scale = 2e-3 * jnp.sqrt(1 - 0.99 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), params, mu, nu)
    return params, {"mu": mu, "nu": nu}, loss


def main():
    x, y = make_runs(20_000, 1)
    xv, yv = make_runs(1024, 2)
    rng = np.random.default_rng(3)
    params = init(jax.random.key(0))
    opt = {"mu": jax.tree.map(jnp.zeros_like, params), "nu": jax.tree.map(jnp.zeros_like, params)}
    evaluate = jax.jit(lambda p, a, b: jnp.mean((jax.vmap(predict, (None, 0))(p, a) - b) ** 2))

    losses = []
    for step in range(STEPS):
        rows = rng.integers(0, len(x), BATCH)
        params, opt, loss = train_step(params, opt, x[rows], y[rows], step)
        losses.append(loss)
        if (step + 1) % 50 == 0 or step + 1 == STEPS:
            print(f"step {step + 1} loss {np.mean(jax.device_get(losses)):.4f} "
                  f"valid mse {float(evaluate(params, xv, yv)):.4f}", flush=True)
            losses.clear()


if __name__ == "__main__":
    main()
