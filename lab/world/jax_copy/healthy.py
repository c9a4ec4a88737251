"""Decoder-only transformer on a synthetic copy/reverse task, plain JAX."""
import functools
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Config:
    vocab: int = 40
    length: int = 48
    dim: int = 96
    heads: int = 4
    depth: int = 3
    batch: int = 16
    steps: int = 450
    lr: float = 1e-3
    log_every: int = 10


def init(key, cfg):
    k = jax.random.split(key, 7)
    normal = lambda key, *shape: jax.random.normal(key, shape) * 0.02
    L, D = cfg.depth, cfg.dim
    return {
        "embed": normal(k[0], cfg.vocab, D), "pos": normal(k[1], cfg.length, D),
        "layers": {"qkv": normal(k[2], L, D, 3 * D), "proj": normal(k[3], L, D, D),
                   "up": normal(k[4], L, D, 4 * D), "down": normal(k[5], L, 4 * D, D),
                   "g1": jnp.ones((L, D)), "g2": jnp.ones((L, D))},
        "norm": jnp.ones(D),
    }


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def forward(params, tokens, cfg):
    b, t = tokens.shape
    x = params["embed"][tokens] + params["pos"][:t]
    mask = jnp.tril(jnp.ones((t, t), bool))

    def layer(x, p):
        q, k, v = jnp.split(rms_norm(x, p["g1"]) @ p["qkv"], 3, -1)
        q, k, v = (a.reshape(b, t, cfg.heads, -1) for a in (q, k, v))
        att = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        att = jax.nn.softmax(jnp.where(mask, att, -1e9))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, -1) @ p["proj"]
        return x + jax.nn.gelu(rms_norm(x, p["g2"]) @ p["up"]) @ p["down"], None

    x, _ = jax.lax.scan(layer, x, params["layers"])
    return rms_norm(x, params["norm"]) @ params["embed"].T


def loss_fn(params, tokens, cfg):
    logits = forward(params, tokens[:, :-1], cfg)
    target = tokens[:, 1:]
    nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], -1)[..., 0]
    second_half = jnp.arange(target.shape[1]) >= target.shape[1] // 2
    return jnp.sum(nll * second_half) / (second_half.sum() * target.shape[0])


@functools.partial(jax.jit, static_argnums=2, donate_argnums=0)
def train_step(state, tokens, cfg):
    params, m, v, t = state
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, cfg)
    t = t + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    lr = cfg.lr * jnp.minimum(1.0, t / 50) * jnp.sqrt(1 - 0.99 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, a, b: p - lr * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return (params, m, v, t), loss


def batches(cfg, seed):
    rng = np.random.default_rng(seed)
    half = cfg.length // 2
    while True:
        x = rng.integers(2, cfg.vocab, (cfg.batch, half))
        flip = rng.random(cfg.batch) < 0.5
        x[:, 0] = flip
        yield np.concatenate([x, np.where(flip[:, None], x[:, ::-1], x)], 1).astype(np.int32)


def main():
    cfg = Config()
    params = init(jax.random.key(0), cfg)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (params, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros(()))
    start = time.time()
    for step, tokens in zip(range(1, cfg.steps + 1), batches(cfg, 1)):
        state, loss = train_step(state, tokens, cfg)
        if step % cfg.log_every == 0:
            print(f"step {step} loss {float(loss):.4f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
