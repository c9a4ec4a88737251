"""Next-item recommendation: two-tower model with mined hard negatives, in JAX."""
import os
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "500"))
USERS, ITEMS, HISTORY = 2000, 2400, 12
DIM, BATCH, HARD = 64, 32, 24
TASTES = 25


def make_sessions(n, seed=0):
    rng = np.random.default_rng(seed)
    taste_of_item = rng.integers(0, TASTES, ITEMS)
    shelves = [np.flatnonzero(taste_of_item == k) for k in range(TASTES)]
    tastes = rng.integers(0, TASTES, (USERS, 2))
    users = rng.integers(0, USERS, n)
    picks = np.empty((n, HISTORY + 1), np.int32)
    for i, u in enumerate(users):
        for j in range(HISTORY + 1):
            shelf = shelves[tastes[u, rng.integers(0, 2)]]
            picks[i, j] = shelf[min(int(rng.exponential(12)), len(shelf) - 1)]
    return users.astype(np.int32), picks


def init_params(key):
    keys = jax.random.split(key, 5)
    return {
        "user": 0.1 * jax.random.normal(keys[0], (USERS, DIM)),
        "item": 0.1 * jax.random.normal(keys[1], (ITEMS, DIM)),
        "w1": jax.random.normal(keys[2], (2 * DIM, 1024)) / np.sqrt(2 * DIM),
        "b1": jnp.zeros(1024),
        "w_mid": jax.random.normal(keys[4], (1024, 1024)) / 32.0,
        "b_mid": jnp.zeros(1024),
        "w2": jax.random.normal(keys[3], (1024, DIM)) / 32.0,
        "b2": jnp.zeros(DIM),
    }


def unit(x):
    return x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6)


def user_tower(params, users, history):
    past = params["item"][history].mean(axis=1)
    h = jnp.concatenate([params["user"][users], past], axis=1)
    h = jax.nn.relu(h @ params["w1"] + params["b1"])
    h = jax.nn.relu(h @ params["w_mid"] + params["b_mid"])
    return unit(h @ params["w2"] + params["b2"])


def mine_negatives(params, query, positive, k):
    scores = query @ unit(params["item"]).T
    scores = scores.at[jnp.arange(positive.shape[0]), positive].set(-jnp.inf)
    order = jnp.argsort(-scores, axis=1)
    return order[:, :k]


def loss_fn(params, users, history, positive):
    query = user_tower(params, users, history)
    negative = jax.lax.stop_gradient(mine_negatives(params, query, positive, HARD))
    candidates = jnp.concatenate([positive[:, None], negative], axis=1)
    items = unit(params["item"][candidates])
    logits = 8.0 * jnp.einsum("bd,bkd->bk", query, items)
    return -jax.nn.log_softmax(logits, axis=1)[:, 0].mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, moments, users, history, positive):
    loss, grads = jax.value_and_grad(loss_fn)(params, users, history, positive)
    moments = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, moments, grads)
    params = jax.tree.map(lambda p, g, v: p - 2e-3 * g / (jnp.sqrt(v) + 1e-6),
                          params, grads, moments)
    return params, moments, loss


@jax.jit
def hit_rate(params, users, history, positive):
    scores = user_tower(params, users, history) @ unit(params["item"]).T
    own = jnp.take_along_axis(scores, positive[:, None], axis=1)
    return ((scores > own).sum(axis=1) < 20).mean()


def main():
    users, picks = make_sessions(6000)
    train, test = slice(0, 5500), slice(5500, 6000)
    users_tr, hist_tr, pos_tr = users[train], picks[train, :-1], picks[train, -1]
    rng = np.random.default_rng(1)
    params = init_params(jax.random.PRNGKey(0))
    moments = jax.tree.map(lambda p: jnp.full_like(p, 1e-6), params)

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        idx = rng.integers(0, len(users_tr), BATCH)
        params, moments, loss = train_step(params, moments, users_tr[idx], hist_tr[idx],
                                           pos_tr[idx])
        if step % 50 == 0:
            print(f"step {step:4d}  loss {float(loss):.4f}", flush=True)
    final = float(loss)
    elapsed = time.perf_counter() - start

    rate = hit_rate(params, users[test], picks[test, :-1], picks[test, -1])
    print(f"final loss {final:.4f}  hit@20 {float(rate):.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
