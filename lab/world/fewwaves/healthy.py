"""MAML on families of waves: inner gradient steps inside the meta-gradient, plain JAX."""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "600"))
TASKS, SHOTS, QUERY, WIDTH = 24, 10, 30, 80
INNER_STEPS, INNER_LR, META_LR = 5, 0.02, 1e-3


def sample_tasks(key, n):
    ka, kp, kf, kx, kn = jax.random.split(key, 5)
    amp = jax.random.uniform(ka, (n, 1, 1), minval=0.5, maxval=3.0)
    phase = jax.random.uniform(kp, (n, 1, 1), maxval=jnp.pi)
    freq = jax.random.uniform(kf, (n, 1, 1), minval=0.8, maxval=1.2)
    x = jax.random.uniform(kx, (n, SHOTS + QUERY, 1), minval=-4.0, maxval=4.0)
    y = amp * jnp.sin(freq * x + phase) + 0.05 * jax.random.normal(kn, x.shape)
    return (x[:, :SHOTS], y[:, :SHOTS]), (x[:, SHOTS:], y[:, SHOTS:])


def init(key):
    sizes = [1, WIDTH, WIDTH, WIDTH, 1]
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": jax.random.normal(k, (a, b)) * np.sqrt(2.0 / (a + b)), "b": jnp.zeros(b)}
            for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def predict(params, x):
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def mse(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


def adapt(params, x, y, rates):
    """Plain gradient descent on the support set, one learned rate per layer."""
    def inner(p, _):
        grads = jax.grad(mse)(p, x, y)
        p = [jax.tree.map(lambda w, g: w - jnp.exp(rate) * g, layer, grad)  # noqa: B023
             for layer, grad, rate in zip(p, grads, rates)]
        return p, None
    params, _ = jax.lax.scan(inner, params, None, length=INNER_STEPS)
    return params


def meta_loss(meta, support, query):
    def task_loss(xs, ys, xq, yq):
        return mse(adapt(meta["net"], xs, ys, meta["rates"]), xq, yq)
    return jax.vmap(task_loss)(*support, *query).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def meta_step(meta, opt, key, step):
    support, query = sample_tasks(key, TASKS)
    loss, grads = jax.value_and_grad(meta_loss)(meta, support, query)
    norm = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 5.0 / norm), grads)
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["nu"], grads)
    scale = META_LR * jnp.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
    meta = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), meta, mu, nu)
    return meta, {"mu": mu, "nu": nu}, loss


def main():
    key = jax.random.key(0)
    key, sub = jax.random.split(key)
    net = init(sub)
    meta = {"net": net, "rates": jnp.full(len(net), jnp.log(INNER_LR))}
    opt = {"mu": jax.tree.map(jnp.zeros_like, meta), "nu": jax.tree.map(jnp.zeros_like, meta)}
    evaluate = jax.jit(meta_loss)
    held_out = sample_tasks(jax.random.key(99), 100)

    smooth = None
    for step in range(1, STEPS + 1):
        key, sub = jax.random.split(key)
        meta, opt, loss = meta_step(meta, opt, sub, step)
        if step % 50 == 0 or step == STEPS:
            value = float(loss)
            smooth = value if smooth is None else 0.7 * smooth + 0.3 * value
            print(f"step {step} loss {smooth:.4f} held-out {float(evaluate(meta, *held_out)):.4f}", flush=True)


if __name__ == "__main__":
    main()
