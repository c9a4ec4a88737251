"""Physics-informed network for a family of heat equations with varying material."""
import time
from functools import partial

import jax
import jax.numpy as jnp

WIDTH = 64
DEPTH = 4
POINTS = 512
STEPS = 400
LEARNING_RATE = 1e-3
EDGE_POINTS = 2048
# inputs: x, t, diffusivity
INPUTS = 3


def init_params(key):
    sizes = [INPUTS] + [WIDTH] * DEPTH + [1]
    params = []
    for k, (m, n) in zip(jax.random.split(key, len(sizes) - 1), zip(sizes[:-1], sizes[1:])):
        params.append({"w": jax.random.normal(k, (m, n)) * jnp.sqrt(1.0 / m), "b": jnp.zeros(n)})
    return params


def network(params, z):
    h = z
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[0]


def source(z):
    return 0.8 * jnp.exp(-((z[0] - 0.4) / 0.15) ** 2)


def residual(params, z):
    u = partial(network, params)
    slope = jax.grad(u)(z)
    along_x = jnp.zeros_like(z).at[0].set(1.0)
    curve = jax.jvp(jax.grad(u), (z,), (along_x,))[1]
    return slope[1] - z[2] * curve[0] - source(z)


def initial_gap(params, z):
    z = z.at[1].set(0.0)
    wanted = jnp.sin(jnp.pi * z[0]) + 0.3 * jnp.sin(2 * jnp.pi * z[0])
    return network(params, z) - wanted


def wall_gap(params, z):
    left = network(params, z.at[0].set(0.0))
    right = network(params, z.at[0].set(1.0))
    return left, right


def loss_fn(params, points, edge):
    res = jax.vmap(residual, (None, 0))(params, points)
    ini = jax.vmap(initial_gap, (None, 0))(params, edge)
    left, right = jax.vmap(wall_gap, (None, 0))(params, edge)
    return (res ** 2).mean() + 10 * (ini ** 2).mean() + 5 * (left ** 2 + right ** 2).mean()


def sample_points(key, n):
    u = jax.random.uniform(key, (n, INPUTS))
    low = jnp.array([0.0, 0.0, 0.05])
    high = jnp.array([1.0, 1.0, 0.30])
    return low + u * (high - low)


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, zeros, jnp.zeros(())


def adam_update(params, grads, state):
    m, v, count = state
    count = count + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    scale = LEARNING_RATE * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, (m, v, count)


@jax.jit
def train_step(params, state, key):
    key, inner, edge = jax.random.split(key, 3)
    loss, grads = jax.value_and_grad(loss_fn)(
        params, sample_points(inner, POINTS), sample_points(edge, EDGE_POINTS))
    params, state = adam_update(params, grads, state)
    return params, state, key, loss


def main():
    key, init = jax.random.split(jax.random.key(31))
    params = init_params(init)
    state = adam_init(params)
    start = time.time()
    for step in range(1, STEPS + 1):
        params, state, key, loss = train_step(params, state, key)
        if step % 40 == 0:
            print(f"step {step:4d} loss {float(loss):.4f} time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
