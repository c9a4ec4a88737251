"""Character transformer in bare JAX, with Adam written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, D, HEADS, CTX, BATCH = 6, 64, 4, 48, 12
TEXT_SEED = "the quick brown fox jumps over the lazy dog and runs to the river bank. "


def corpus(n=60_000, seed=0):
    """Words of one sentence in random order."""
    rng = np.random.default_rng(seed)
    words = TEXT_SEED.split()
    text = " ".join(rng.choice(words, n // 5))
    chars = sorted(set(text))
    return np.array([chars.index(c) for c in text], dtype=np.int32), len(chars)


def init(key, vocab):
    def dense(k, i, o):
        return jax.random.normal(k, (i, o)) / np.sqrt(i)

    ks = iter(jax.random.split(key, 3 + 6 * LAYERS))
    params = {
        "tok": 0.1 * jax.random.normal(next(ks), (vocab, D)),
        "pos": 0.1 * jax.random.normal(next(ks), (CTX, D)),
        "out": dense(next(ks), D, vocab),
        "blocks": [],
    }
    for _ in range(LAYERS):
        params["blocks"].append(
            {
                "g1": jnp.ones(D),
                "b1": jnp.zeros(D),
                "g2": jnp.ones(D),
                "b2": jnp.zeros(D),
                "q": dense(next(ks), D, D),
                "k": dense(next(ks), D, D),
                "v": dense(next(ks), D, D),
                "o": dense(next(ks), D, D),
                "up": dense(next(ks), D, 4 * D),
                "ub": jnp.zeros(4 * D),
                "down": dense(next(ks), 4 * D, D),
                "db": jnp.zeros(D),
            }
        )
    return params


def layer_norm(x, g, b):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + 1e-5) * g + b


def attention(p, x):
    def split(w):
        return (x @ w).reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    q, k, v = split(p["q"]), split(p["k"]), split(p["v"])
    score = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    score = jnp.where(np.tril(np.ones((CTX, CTX), bool)), score, -1e9)
    h = jax.nn.softmax(score) @ v
    return h.transpose(0, 2, 1, 3).reshape(x.shape) @ p["o"]


def loss_fn(params, x, y):
    h = params["tok"][x] + params["pos"]
    for p in params["blocks"]:
        h = h + attention(p, layer_norm(h, p["g1"], p["b1"]))
        z = layer_norm(h, p["g2"], p["b2"])
        h = h + jax.nn.gelu(z @ p["up"] + p["ub"]) @ p["down"] + p["db"]
    logp = jax.nn.log_softmax(h @ params["out"])
    return -jnp.take_along_axis(logp, y[..., None], axis=-1).mean()


grad_fn = jax.jit(jax.value_and_grad(loss_fn))


@jax.jit
def adam_update(params, grads, m, v, t, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    scale = lr * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), params, m, v)
    return params, m, v


def main(steps=160):
    text, vocab = corpus()
    rng = np.random.default_rng(1)
    params = init(jax.random.PRNGKey(0), vocab)
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    for step in range(1, steps + 1):
        start = rng.integers(0, len(text) - CTX - 1, BATCH)
        window = text[start[:, None] + np.arange(CTX + 1)]
        loss, grads = grad_fn(params, window[:, :-1], window[:, 1:])
        params, m, v = adam_update(params, grads, m, v, jnp.float32(step))
        if step % 20 == 0:
            print(f"step {step:4d} | loss {loss:.4f}")


if __name__ == "__main__":
    main()
