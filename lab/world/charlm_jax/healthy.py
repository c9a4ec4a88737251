"""Character LM: 2-layer transformer in plain JAX."""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--d", type=int, default=64)
ap.add_argument("--layers", type=int, default=2)
ap.add_argument("--heads", type=int, default=4)
ap.add_argument("--ctx", type=int, default=64)
ap.add_argument("--bs", type=int, default=16)
ap.add_argument("--iters", type=int, default=500)
ap.add_argument("--lr", type=float, default=2e-3)
cfg = ap.parse_args()


def make_text(n=200_000):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), rng.integers(2, 7))) for _ in range(200)]
    out = " ".join(words[i] for i in rng.zipf(1.4, n // 4) % 200)
    return out[:n]


text = make_text()
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = np.array([stoi[c] for c in text], np.int32)
train_ids, val_ids = ids[:180_000], ids[180_000:]
V = len(chars)


def get_batch(rng, data):
    i = rng.integers(0, len(data) - cfg.ctx - 1, cfg.bs)
    w = data[i[:, None] + np.arange(cfg.ctx + 1)]
    return w[:, :-1], w[:, 1:]


def init(key):
    def mat(key, *shape):
        return jax.random.normal(key, shape) * 0.02

    ks = iter(jax.random.split(key, 4 + 4 * cfg.layers))
    p = {
        "tok": mat(next(ks), V, cfg.d),
        "pos": mat(next(ks), cfg.ctx, cfg.d),
        "out": mat(next(ks), cfg.d, V),
        "blocks": [],
    }
    for _ in range(cfg.layers):
        p["blocks"].append(
            {
                "qkv": mat(next(ks), cfg.d, 3 * cfg.d),
                "proj": mat(next(ks), cfg.d, cfg.d),
                "up": mat(next(ks), cfg.d, 4 * cfg.d),
                "down": mat(next(ks), 4 * cfg.d, cfg.d),
                "g1": jnp.ones(cfg.d),
                "g2": jnp.ones(cfg.d),
            }
        )
    return p


def norm(x, g):
    return g * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def forward(p, x):
    B, L = x.shape
    h = p["tok"][x] + p["pos"][:L]
    mask = jnp.tril(jnp.ones((L, L), bool))
    for b in p["blocks"]:
        q, k, v = jnp.split((norm(h, b["g1"]) @ b["qkv"]).reshape(B, L, cfg.heads, -1), 3, -1)
        a = jnp.einsum("blhd,bmhd->bhlm", q, k) / np.sqrt(q.shape[-1])
        a = jax.nn.softmax(jnp.where(mask, a, -1e9), -1)
        h = h + jnp.einsum("bhlm,bmhd->blhd", a, v).reshape(B, L, cfg.d) @ b["proj"]
        h = h + jax.nn.gelu(norm(h, b["g2"]) @ b["up"]) @ b["down"]
    return h @ p["out"]


def loss_fn(p, x, y):
    lp = jax.nn.log_softmax(forward(p, x))
    return -jnp.mean(jnp.take_along_axis(lp, y[..., None], -1))


@jax.jit
def train_step(state, x, y):
    p, m, v, t = state
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    t = t + 1
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
    lr = cfg.lr * jnp.sqrt(1 - 0.99**t) / (1 - 0.9**t)
    p = jax.tree.map(lambda w, a, b: w - lr * a / (jnp.sqrt(b) + 1e-8), p, m, v)
    return (p, m, v, t), loss


eval_loss = jax.jit(loss_fn)
params = init(jax.random.PRNGKey(0))
zeros = jax.tree.map(jnp.zeros_like, params)
state = (params, zeros, zeros, jnp.zeros(()))
rng = np.random.default_rng(1)
losses = []
for it in range(cfg.iters):
    x, y = get_batch(rng, train_ids)
    state, loss = train_step(state, x, y)
    losses.append(loss)
    if it == 0:
        loss.block_until_ready()
        t0 = time.time()
    if (it + 1) % 100 == 0:
        print(
            f"iter {it + 1} loss {np.mean(jax.device_get(losses)):.4f} {(time.time() - t0) / it * 1000:.2f} ms/iter",
            flush=True,
        )
        losses.clear()
    if (it + 1) % 250 == 0:
        vl = np.mean([float(eval_loss(state[0], *get_batch(rng, val_ids))) for _ in range(4)])
        print(f"   val loss {vl:.4f}")
