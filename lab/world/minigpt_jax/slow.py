"""A small GPT in plain JAX, parameters as nested dicts, AdamW by hand."""
import time

import jax
import jax.numpy as jnp
import numpy as np

VOCAB, CTX, DIM, HEADS, LAYERS = 96, 48, 96, 4, 4
BATCH = 8
STEPS = 150


def make_corpus(n=100_000, seed=0):
    """First order Markov chain over VOCAB tokens."""
    rng = np.random.default_rng(seed)
    nxt = rng.integers(0, VOCAB, (VOCAB, 3))
    choice = rng.integers(0, 3, n)
    out = np.zeros(n, np.int32)
    for i in range(1, n):
        out[i] = nxt[out[i - 1], choice[i]]
    return out


def init_params(key):
    def dense(key, n_in, n_out, scale=1.0):
        return {"w": scale * jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}

    def ln():
        return {"g": jnp.ones(DIM), "b": jnp.zeros(DIM)}

    keys = iter(jax.random.split(key, 4 + 4 * LAYERS))
    params = {"wte": 0.02 * jax.random.normal(next(keys), (VOCAB, DIM)),
              "wpe": 0.02 * jax.random.normal(next(keys), (CTX, DIM)),
              "ln_f": ln(), "blocks": []}
    for _ in range(LAYERS):
        params["blocks"].append({
            "ln1": ln(), "qkv": dense(next(keys), DIM, 3 * DIM), "proj": dense(next(keys), DIM, DIM, 0.3),
            "ln2": ln(), "fc1": dense(next(keys), DIM, 4 * DIM), "fc2": dense(next(keys), 4 * DIM, DIM, 0.3)})
    return params


def layer_norm(p, x):
    x = x - x.mean(-1, keepdims=True)
    return p["g"] * x * jax.lax.rsqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) + p["b"]


def linear(p, x):
    return x @ p["w"] + p["b"]


def attention(p_qkv, p_proj, x):
    B, T, C = x.shape
    q, k, v = jnp.split(linear(p_qkv, x), 3, axis=-1)
    q, k, v = (a.reshape(B, T, HEADS, C // HEADS).transpose(0, 2, 1, 3) for a in (q, k, v))
    att = q @ k.transpose(0, 1, 3, 2) / np.sqrt(C // HEADS)
    att = jnp.where(jnp.tril(jnp.ones((T, T), bool)), att, -1e9)
    y = jax.nn.softmax(att, axis=-1) @ v
    return linear(p_proj, y.transpose(0, 2, 1, 3).reshape(B, T, C))


def gpt(params, idx):
    x = params["wte"][idx] + params["wpe"][: idx.shape[1]]
    for b in params["blocks"]:
        x = x + attention(b["qkv"], b["proj"], layer_norm(b["ln1"], x))
        x = x + linear(b["fc2"], jax.nn.gelu(linear(b["fc1"], layer_norm(b["ln2"], x))))
    return layer_norm(params["ln_f"], x) @ params["wte"].T


@jax.jit
def loss_and_grads(params, x, y):
    def loss_fn(params):
        logp = jax.nn.log_softmax(gpt(params, x))
        return -jnp.take_along_axis(logp, y[..., None], axis=-1).mean()
    return jax.value_and_grad(loss_fn)(params)


def init_opt(params):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    return {"m": zeros, "v": zeros, "t": jnp.zeros((), jnp.int32)}


def adamw_update(params, grads, opt, lr=1e-3, b1=0.9, b2=0.99, eps=1e-8, wd=0.01, clip=1.0):
    tmap = jax.tree_util.tree_map
    gnorm = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree_util.tree_leaves(grads)))
    scale = jnp.minimum(1.0, clip / (gnorm + 1e-6))
    grads = tmap(lambda g: g * scale, grads)
    t = opt["t"] + 1
    m = tmap(lambda m, g: b1 * m + (1 - b1) * g, opt["m"], grads)
    v = tmap(lambda v, g: b2 * v + (1 - b2) * g ** 2, opt["v"], grads)
    c1, c2 = 1 - b1 ** t, 1 - b2 ** t
    params = tmap(lambda p, m, v: p - lr * (m / c1 / (jnp.sqrt(v / c2) + eps) + wd * p), params, m, v)
    return params, {"m": m, "v": v, "t": t}


def get_batch(rng, data):
    i = rng.integers(0, len(data) - CTX - 1, BATCH)
    win = data[i[:, None] + np.arange(CTX + 1)]
    return win[:, :-1], win[:, 1:]


def main():
    data = make_corpus()
    rng = np.random.default_rng(1)
    params = init_params(jax.random.PRNGKey(0))
    opt = init_opt(params)
    print("parameters:", sum(p.size for p in jax.tree_util.tree_leaves(params)))
    times, losses = [], []
    for step in range(STEPS):
        t0 = time.perf_counter()
        x, y = get_batch(rng, data)
        loss, grads = loss_and_grads(params, x, y)
        params, opt = adamw_update(params, grads, opt)
        jax.block_until_ready(params)
        times.append(time.perf_counter() - t0)
        losses.append(loss)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {np.mean(losses[-50:]):.4f}")
    print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")


if __name__ == "__main__":
    main()
