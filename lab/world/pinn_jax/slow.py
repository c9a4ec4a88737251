# Physics-informed net for the 1D heat equation u_t = a u_xx, plain JAX, own Adam
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

ALPHA = 0.1
WIDTH = 48
DEPTH = 8
N_COL = 256
N_BC = 64
STEPS = 900
LR = 1e-3


def init_mlp(key, sizes):
    params = []
    for m, n in zip(sizes[:-1], sizes[1:]):
        key, k = jax.random.split(key)
        params.append(
            {
                "w": jax.random.normal(k, (m, n)) * np.sqrt(1.0 / m),
                "b": jnp.zeros((n,)),
                "a": jnp.ones((n,)),
            }
        )
    return params


def net(params, x, t):
    h = jnp.stack([x, t])
    for p in params[:-1]:
        h = jnp.tanh(p["a"] * (h @ p["w"] + p["b"]))
    out = params[-1]
    return (out["a"] * (h @ out["w"] + out["b"]))[0]


def residual(params, x, t):
    u_t = jax.grad(net, 2)(params, x, t)
    u_xx = jax.grad(jax.grad(net, 1), 1)(params, x, t)
    return u_t - ALPHA * u_xx


def loss_fn(params, col, ic, bc):
    r = jax.vmap(partial(residual, params))(col[:, 0], col[:, 1])
    u0 = jax.vmap(partial(net, params))(ic[:, 0], ic[:, 1])
    ub = jax.vmap(partial(net, params))(bc[:, 0], bc[:, 1])
    return (
        jnp.mean(r**2) + 10.0 * jnp.mean((u0 - jnp.sin(jnp.pi * ic[:, 0])) ** 2) + jnp.mean(ub**2)
    )


@jax.jit
def value_and_grads(params, col, ic, bc):
    return jax.value_and_grad(loss_fn)(params, col, ic, bc)


def adam_init(params):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return {"m": zeros, "v": zeros, "t": jnp.zeros(())}


def adam_update(params, grads, state, lr, b1=0.9, b2=0.999, eps=1e-8):
    t = state["t"] + 1
    m = jax.tree_util.tree_map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree_util.tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    c1, c2 = 1 - b1**t, 1 - b2**t
    params = jax.tree_util.tree_map(
        lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, m, v
    )
    return params, {"m": m, "v": v, "t": t}


def sample(rng):
    col = rng.uniform(0, 1, (N_COL, 2)).astype(np.float32)
    ic = np.stack([rng.uniform(0, 1, N_BC), np.zeros(N_BC)], 1).astype(np.float32)
    side = rng.integers(0, 2, N_BC)
    bc = np.stack([side, rng.uniform(0, 1, N_BC)], 1).astype(np.float32)
    return col, ic, bc


def relative_error(params):
    x, t = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41))
    u = jax.vmap(partial(net, params))(jnp.asarray(x.ravel()), jnp.asarray(t.ravel()))
    true = np.exp(-ALPHA * np.pi**2 * t.ravel()) * np.sin(np.pi * x.ravel())
    return float(jnp.linalg.norm(u - true) / np.linalg.norm(true))


def main():
    rng = np.random.default_rng(0)
    params = init_mlp(jax.random.PRNGKey(0), [2] + [WIDTH] * DEPTH + [1])
    opt_state = adam_init(params)
    history = []
    t0 = None
    for step in range(STEPS):
        col, ic, bc = sample(rng)
        loss, grads = value_and_grads(params, col, ic, bc)
        params, opt_state = adam_update(params, grads, opt_state, LR)
        history.append(float(loss))
        if step == 9:
            t0 = time.time()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1} loss {np.mean(history[-100:]):.6f}", flush=True)
        if (step + 1) % 450 == 0:
            print(f"   rel. L2 error {relative_error(params):.4f}")
    print(f"{(time.time() - t0) / (STEPS - 10) * 1000:.2f} ms/step")


if __name__ == "__main__":
    main()
