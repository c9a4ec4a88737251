"""Message passing on padded molecular graphs to predict solubility and dipole (JAX)."""
import os
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "350"))
ATOMS, BONDS = 24, 4            # largest molecule, bond types
ELEMENTS = 8
WIDTH, ROUNDS = 128, 4
BATCH = 48


def make_molecules(count=4000, seed=0):
    """Random trees with a few rings; properties depend on local neighbourhoods."""
    rng = np.random.default_rng(seed)
    size = rng.integers(10, ATOMS + 1, count)
    element = rng.choice(ELEMENTS, (count, ATOMS), p=[.5, .2, .12, .06, .05, .03, .02, .02])
    adjacency = np.zeros((count, BONDS, ATOMS, ATOMS), np.float32)
    rows = np.arange(count)
    for i in range(1, ATOMS):
        parent = np.minimum(rng.integers(max(0, i - 4), i, count), i - 1)
        kind = rng.choice(BONDS, count, p=[.7, .15, .02, .13])
        alive = (i < size).astype(np.float32)
        adjacency[rows, kind, i, parent] = alive
        adjacency[rows, kind, parent, i] = alive
    for _ in range(2):
        a = rng.integers(0, 9, count)
        adjacency[rows, 3, a, a + 1] = adjacency[rows, 3, a + 1, a] = 1
    mask = (np.arange(ATOMS) < size[:, None]).astype(np.float32)
    atoms = np.eye(ELEMENTS, dtype=np.float32)[element] * mask[..., None]
    polarity = np.array([0.1, -0.8, -0.6, -0.9, 0.3, -0.5, 0.2, 0.7])[element] * mask
    around = np.einsum("nbij,nj->ni", adjacency, polarity)
    target = np.stack([(polarity * around).sum(1), np.abs(polarity - around).sum(1) / size], 1)
    target = (target - target.mean(0)) / target.std(0)
    return atoms, adjacency, mask, target.astype(np.float32)


def init_params(key):
    def dense(k, i, o):
        return {"w": jax.random.normal(k, (i, o)) * (1.4 / i ** 0.5), "b": jnp.zeros(o)}

    keys = jax.random.split(key, 2 * ROUNDS + 3)
    return {
        "embed": dense(keys[0], ELEMENTS, WIDTH),
        "message": [dense(keys[1 + r], WIDTH, BONDS * 32) for r in range(ROUNDS)],
        "update": [dense(keys[1 + ROUNDS + r], WIDTH + BONDS * 32, WIDTH) for r in range(ROUNDS)],
        "hidden": dense(keys[-2], WIDTH, WIDTH), "out": dense(keys[-1], WIDTH, 2),
    }


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def forward(params, atoms, adjacency, mask):
    n = atoms.shape[0]
    h = apply_dense(params["embed"], atoms) * mask[..., None]
    for message, update in zip(params["message"], params["update"]):
        sent = apply_dense(message, h).reshape(n, ATOMS, BONDS, 32).transpose(0, 2, 1, 3)
        received = (adjacency @ sent).transpose(0, 2, 1, 3).reshape(n, ATOMS, BONDS * 32)
        change = apply_dense(update, jnp.concatenate([h, received], -1))
        h = (h + jax.nn.relu(change)) * mask[..., None]
    pooled = h.sum(1) / mask.sum(1, keepdims=True)
    return apply_dense(params["out"], jax.nn.relu(apply_dense(params["hidden"], pooled)))


def loss_fn(params, batch):
    atoms, adjacency, mask, target = batch
    return jnp.mean(huber(forward(params, atoms, adjacency, mask) - target))


def huber(error, delta=1.0):
    size = jnp.abs(error)
    return jnp.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


@partial(jax.jit, donate_argnums=0)
def train_step(state, data, pick):
    params, m, v, count = state
    batch = tuple(x[pick] for x in data)
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    count = count + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    rate = 1e-3 * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return (params, m, v, count), loss


def main():
    data = jax.device_put(make_molecules())
    rng = np.random.default_rng(1)
    picks = rng.integers(len(data[0]), size=(STEPS, BATCH)).astype(np.int32)
    params = init_params(jax.random.key(0))
    state = (params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params),
             jnp.zeros((), jnp.int32))
    start = time.time()
    for step in range(1, STEPS + 1):
        state, loss = train_step(state, data, picks[step - 1])
        if step % 50 == 0:
            print(f"step {step:4d}  loss {float(loss):.4f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
