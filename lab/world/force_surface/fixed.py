"""Energy surface of a small cluster with an occasional smoothness penalty."""
import time

import jax
import jax.numpy as jnp

ATOMS = 7
PAIRS = ATOMS * (ATOMS - 1) // 2
BATCH = 192
STEPS = 400
EVERY = 2
WEIGHT = 0.02
ROWS, COLS = jnp.triu_indices(ATOMS, 1)


def reference_energy(x):
    """Soft Lennard-Jones energy of one configuration."""
    d2 = ((x[ROWS] - x[COLS]) ** 2).sum(-1) + 0.6
    inv = 1.0 / d2 ** 3
    return (inv ** 2 - inv).sum()


def make_configurations(key, n):
    x = 1.2 * jax.random.normal(key, (n, ATOMS, 3))
    return x, *jax.vmap(jax.value_and_grad(reference_energy))(x)


def init_params(key, width=128):
    sizes = [PAIRS, width, width, width, 1]
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (m, n)) * jnp.sqrt(1.5 / m), jnp.zeros(n))
            for k, m, n in zip(keys, sizes[:-1], sizes[1:])]


def energy(params, x):
    d2 = ((x[ROWS] - x[COLS]) ** 2).sum(-1)
    h = jnp.exp(-0.4 * d2)
    for w, b in params[:-1]:
        h = jax.nn.silu(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[0]


def roughness(params, x):
    """Squared norm of the change of the forces along their own direction."""
    force = jax.grad(energy, argnums=1)
    f = force(params, x)
    unit = f / (jnp.linalg.norm(f) + 1e-3)
    _, bend = jax.jvp(lambda q: force(params, q), (x,), (unit,))
    return (bend ** 2).sum()


def sample_loss(params, x, e, g, step):
    value, slope = jax.value_and_grad(energy, argnums=1)(params, x)
    fit = (value - e) ** 2 + 0.1 * ((slope - g) ** 2).sum()
    extra = jax.lax.cond(step % EVERY == 0, lambda: EVERY * roughness(params, x), lambda: 0.0)
    return fit + WEIGHT * extra


def batch_loss(params, x, e, g, more, step):
    known = jax.vmap(sample_loss, in_axes=(None, 0, 0, 0, None))(params, x, e, g, step).mean()
    return known + ((jax.vmap(energy, (None, 0))(params, more[0]) - more[1]) ** 2).mean()


@jax.jit
def train_step(params, velocity, x, e, g, more, step):
    loss, grads = jax.value_and_grad(batch_loss)(params, x, e, g, more, step)
    norm = jnp.sqrt(sum((g ** 2).sum() for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-9))
    velocity = jax.tree.map(lambda v, g: 0.9 * v + scale * g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - 0.003 * v, params, velocity)
    return params, velocity, loss


@jax.jit
def test_error(params, x, e, g):
    return jnp.abs(jax.vmap(energy, (None, 0))(params, x) - e).mean()


def main():
    keys = jax.random.split(jax.random.key(12), 4)
    x, e, g = make_configurations(keys[0], 8192)
    test = make_configurations(keys[1], 256)
    more = make_configurations(keys[3], 2048)[:2]
    params = init_params(keys[2])
    velocity = jax.tree.map(jnp.zeros_like, params)
    start = time.time()
    for step in range(1, STEPS + 1):
        i = (step * BATCH) % (len(x) - BATCH)
        params, velocity, loss = train_step(params, velocity, x[i:i + BATCH], e[i:i + BATCH],
                                            g[i:i + BATCH], more, step)
        if step % 40 == 0:
            print(f"step {step:4d} loss {float(loss):.4f} test {float(test_error(params, *test)):.4f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
