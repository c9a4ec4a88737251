"""Solve the 1-D heat equation with a physics-informed network in JAX.

u_t = 0.05 u_xx on [0, 1], zero at the ends, a sum of two sines at t = 0. Collocation points are
drawn anew in every step; the error against the closed solution is printed now and then.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp

NU = 0.05
WIDTHS = (2, 96, 96, 96, 1)
POINTS, EDGE = 1024, 128
STEPS = 900
LR = 2e-3


def init_params(key):
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [
        (jax.random.normal(k, (n_in, n_out)) * jnp.sqrt(2.0 / (n_in + n_out)), jnp.zeros(n_out))
        for k, n_in, n_out in zip(keys, WIDTHS[:-1], WIDTHS[1:])
    ]


def net(params, x, t):
    h = jnp.stack([2 * x - 1, 2 * t - 1], axis=-1)
    for w, b in params[:-1]:
        h = jnp.tanh(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[..., 0]


def initial_profile(x):
    return jnp.sin(jnp.pi * x) + 0.5 * jnp.sin(3 * jnp.pi * x)


def exact(x, t):
    one = jnp.exp(-NU * jnp.pi**2 * t) * jnp.sin(jnp.pi * x)
    three = 0.5 * jnp.exp(-9 * NU * jnp.pi**2 * t) * jnp.sin(3 * jnp.pi * x)
    return one + three


def residual(params, x, t):
    """u_t - nu u_xx with forward-mode derivatives along each axis for the whole batch."""
    ones = jnp.ones_like(x)
    u_t = jax.jvp(lambda s: net(params, x, s), (t,), (ones,))[1]

    def u_x(s):
        return jax.jvp(lambda r: net(params, r, t), (s,), (ones,))[1]

    u_xx = jax.jvp(u_x, (x,), (ones,))[1]
    return u_t - NU * u_xx


def pinn_loss(params, key):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    x, t = jax.random.uniform(k1, (2, POINTS))
    inside = jnp.mean(residual(params, x, t) ** 2)
    x0 = jax.random.uniform(k2, (EDGE,))
    start = jnp.mean((net(params, x0, jnp.zeros(EDGE)) - initial_profile(x0)) ** 2)
    tb = jax.random.uniform(k3, (EDGE,))
    side = jax.random.bernoulli(k4, 0.5, (EDGE,)).astype(jnp.float32)
    border = jnp.mean(net(params, side, tb) ** 2)
    return inside + 10.0 * start + 10.0 * border


def adam_init(params):
    return {
        "m": jax.tree.map(jnp.zeros_like, params),
        "v": jax.tree.map(jnp.zeros_like, params),
        "count": jnp.zeros(()),
    }


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt, key):
    key, sub = jax.random.split(key)
    loss, grads = jax.value_and_grad(pinn_loss)(params, sub)
    count = opt["count"] + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["m"], grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["v"], grads)
    rate = LR * 0.5 * (1 + jnp.cos(jnp.pi * count / STEPS))
    scale = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, {"m": m, "v": v, "count": count}, key, loss


@jax.jit
def relative_error(params):
    x, t = jnp.meshgrid(jnp.linspace(0, 1, 64), jnp.linspace(0, 1, 64))
    x, t = x.ravel(), t.ravel()
    truth = exact(x, t)
    return jnp.linalg.norm(net(params, x, t) - truth) / jnp.linalg.norm(truth)


def main():
    key = jax.random.PRNGKey(0)
    key, sub = jax.random.split(key)
    params = init_params(sub)
    opt = adam_init(params)

    times = []
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        params, opt, key, loss = train_step(params, opt, key)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if step % 150 == 0:
            print(
                f"step {step:4d}  loss {float(loss):.5f}  "
                f"relative error {float(relative_error(params)):.4f}"
            )

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
