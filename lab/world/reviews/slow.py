"""Sentiment of variable-length reviews, GRU with mean pooling in plain JAX."""
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "600"))
VOCAB, DIM, HID, BATCH, MAX_LEN = 800, 32, 48, 32, 128


def make_reviews(n, seed):
    """Token lists; the label depends on which of two marker sets is more frequent."""
    rng = np.random.default_rng(seed)
    reviews, labels = [], []
    for _ in range(n):
        length = int(np.clip(rng.lognormal(3.4, 0.3), 8, MAX_LEN))
        words = rng.integers(40, VOCAB, length)
        y = int(rng.integers(2))
        marks = rng.random(length) < 0.2
        words[marks] = rng.integers(0, 20, marks.sum()) + 20 * y
        reviews.append(words.astype(np.int32))
        labels.append(y)
    return reviews, np.array(labels, np.float32)


def pad_batch(seqs):
    longest = max(len(s) for s in seqs)
    tokens = np.zeros((len(seqs), longest), np.int32)
    mask = np.zeros((len(seqs), longest), np.float32)
    for i, s in enumerate(seqs):
        tokens[i, :len(s)] = s
        mask[i, :len(s)] = 1.0
    return tokens, mask


def init_gru(key, din, dh):
    k1, k2 = jax.random.split(key)
    return {"w": jax.random.normal(k1, (din, 3 * dh)) / np.sqrt(din),
            "u": jax.random.normal(k2, (dh, 3 * dh)) / np.sqrt(dh),
            "b": jnp.zeros(3 * dh)}


def init_params(key):
    ks = jax.random.split(key, 3)
    return {"emb": jax.random.normal(ks[0], (VOCAB, DIM)) * 0.3,
            "gru": init_gru(ks[1], DIM, HID),
            "out": {"w": jax.random.normal(ks[2], (HID,)) * 0.1, "b": jnp.zeros(())}}


def gru(p, xs, mask):
    """xs [T, B, D]; masked positions keep the previous state."""
    def cell(h, inp):
        x, m = inp
        xz, xr, xn = jnp.split(x @ p["w"] + p["b"], 3, -1)
        hz, hr, hn = jnp.split(h @ p["u"], 3, -1)
        z, r = jax.nn.sigmoid(xz + hz), jax.nn.sigmoid(xr + hr)
        new = (1 - z) * jnp.tanh(xn + r * hn) + z * h
        h = jnp.where(m[:, None] > 0, new, h)
        return h, h * m[:, None]
    h0 = jnp.zeros((xs.shape[1], HID))
    _, hs = jax.lax.scan(cell, h0, (xs, mask))
    return hs


def loss_fn(params, tokens, mask, y):
    xs = params["emb"][tokens].transpose(1, 0, 2)
    m = mask.T
    hs = gru(params["gru"], xs, m)
    pooled = hs.sum(0) / m.sum(0)[:, None]
    logit = pooled @ params["out"]["w"] + params["out"]["b"]
    return jnp.mean(jax.nn.softplus(logit) - y * logit)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, vel, tokens, mask, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, mask, y)
    vel = jax.tree.map(lambda v, g: 0.9 * v + g, vel, grads)
    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, vel)
    return params, vel, loss


def main():
    reviews, labels = make_reviews(5000, 1)
    rng = np.random.default_rng(2)
    params = init_params(jax.random.key(0))
    vel = jax.tree.map(jnp.zeros_like, params)
    losses = []
    for step in range(1, STEPS + 1):
        rows = rng.integers(0, len(reviews), BATCH)
        tokens, mask = pad_batch([reviews[i] for i in rows])
        params, vel, loss = train_step(params, vel, tokens, mask, labels[rows])
        losses.append(loss)
        if step % 50 == 0 or step == STEPS:
            print(f"step {step} loss {np.mean(jax.device_get(losses)):.4f}", flush=True)
            losses.clear()


if __name__ == "__main__":
    main()
