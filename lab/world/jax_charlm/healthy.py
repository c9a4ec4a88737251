"""Character language model: small causal transformer in plain JAX."""
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Hyper(NamedTuple):
    vocab: int = 48
    dim: int = 64
    heads: int = 4
    layers: int = 2
    context: int = 64
    batch: int = 16
    steps: int = 240
    eval_every: int = 40
    lr: float = 2e-3
    warmup: int = 20


def markov_text(n, vocab, seed):
    """Second-order Markov text with a sparse successor table."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, vocab, (vocab, vocab, 4))
    picks = rng.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])
    text = np.zeros(n, np.int32)
    a = b = 0
    for i in range(n):
        a, b = b, int(table[a, b, picks[i]])
        text[i] = b
    return text


def init_params(key, hp):
    def mat(k, *shape):
        return jax.random.normal(k, shape) * 0.05

    key, k_emb, k_pos = jax.random.split(key, 3)
    blocks = []
    for _ in range(hp.layers):
        key, k1, k2, k3, k4 = jax.random.split(key, 5)
        blocks.append({
            "qkv": mat(k1, hp.dim, 3 * hp.dim), "proj": mat(k2, hp.dim, hp.dim),
            "up": mat(k3, hp.dim, 4 * hp.dim), "down": mat(k4, 4 * hp.dim, hp.dim),
            "ln1": jnp.ones(hp.dim), "ln2": jnp.ones(hp.dim),
        })
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *blocks)
    return {"emb": mat(k_emb, hp.vocab, hp.dim), "pos": mat(k_pos, hp.context, hp.dim),
            "blocks": stacked, "ln": jnp.ones(hp.dim)}


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def block(x, p, heads):
    n, t, d = x.shape
    q, k, v = jnp.split(rms_norm(x, p["ln1"]) @ p["qkv"], 3, -1)
    q, k, v = (a.reshape(n, t, heads, d // heads) for a in (q, k, v))
    att = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + att.reshape(n, t, d) @ p["proj"]
    return x + jax.nn.gelu(rms_norm(x, p["ln2"]) @ p["up"]) @ p["down"]


def logits_fn(params, tokens, hp):
    x = params["emb"][tokens] + params["pos"][:tokens.shape[1]]
    x, _ = jax.lax.scan(lambda h, p: (block(h, p, hp.heads), None), x, params["blocks"])
    return rms_norm(x, params["ln"]) @ params["emb"].T


def loss_fn(params, chunk, hp):
    logits = logits_fn(params, chunk[:, :-1], hp)
    logp = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logp, chunk[:, 1:, None], -1))


@partial(jax.jit, static_argnames="hp", donate_argnums=(0, 1))
def train_step(params, opt, chunk, hp):
    loss, grads = jax.value_and_grad(loss_fn)(params, chunk, hp)
    m, v, t = opt
    t = t + 1
    lr = hp.lr * jnp.minimum(t / hp.warmup, 0.5 * (1 + jnp.cos(jnp.pi * t / hp.steps)))
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.98 * a + 0.02 * g * g, v, grads)
    params = jax.tree.map(
        lambda p, a, b: p - lr * (a / (1 - 0.9 ** t)) / (jnp.sqrt(b / (1 - 0.98 ** t)) + 1e-8),
        params, m, v)
    return params, (m, v, t), loss


@partial(jax.jit, static_argnames="hp")
def eval_loss(params, chunks, hp):
    return jnp.mean(jax.lax.map(lambda c: loss_fn(params, c, hp), chunks))


def sample_chunks(text, rng, hp):
    starts = rng.integers(0, len(text) - hp.context - 1, hp.batch)
    return text[starts[:, None] + np.arange(hp.context + 1)]


def main():
    hp = Hyper()
    text = markov_text(150_000, hp.vocab, 0)
    train, val = text[:135_000], text[135_000:]
    rng = np.random.default_rng(0)
    val_chunks = np.stack([sample_chunks(val, rng, hp) for _ in range(3)])

    params = init_params(jax.random.key(0), hp)
    opt = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.zeros(()))
    losses, start = [], None
    for step in range(hp.steps):
        params, opt, loss = train_step(params, opt, sample_chunks(train, rng, hp), hp)
        losses.append(loss)
        if step == 0:
            loss.block_until_ready()
            start = time.perf_counter()
        if (step + 1) % hp.eval_every == 0:
            val_loss = float(eval_loss(params, val_chunks, hp))
            recent = np.mean(jax.device_get(losses[-hp.eval_every:]))
            print(f"step {step + 1} train {recent:.4f} val {val_loss:.4f}", flush=True)
    print(f"{1000 * (time.perf_counter() - start) / (hp.steps - 1):.2f} ms/step")


if __name__ == "__main__":
    main()
