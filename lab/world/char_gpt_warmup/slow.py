"""Character GPT in JAX with a sequence length warm-up."""
import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=20)
    p.add_argument("--min-len", type=int, default=32)
    p.add_argument("--max-len", type=int, default=64)
    p.add_argument("--grow-every", type=int, default=40)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=21)
    return p.parse_args()


def make_text(n_chars, seed):
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(150)]
    probs = 1.0 / np.arange(1, len(words) + 1)
    text = " ".join(rng.choice(words, n_chars // 4, p=probs / probs.sum()))[:n_chars]
    vocab = {c: i for i, c in enumerate(sorted(set(text)))}
    return np.array([vocab[c] for c in text], np.int32), len(vocab)


def init_params(args, vocab):
    rng = np.random.default_rng(args.seed)

    def mat(a, b, s=1.0):
        return jnp.asarray(s * rng.standard_normal((a, b)) / np.sqrt(a), jnp.float32)

    d = args.dim
    layers = [{"qkv": mat(d, 3 * d), "proj": mat(d, d, 0.5), "up": mat(d, 4 * d),
               "down": mat(4 * d, d, 0.5), "g1": jnp.ones(d), "g2": jnp.ones(d)}
              for _ in range(args.layers)]
    return {"tok": mat(vocab, d), "pos": mat(args.max_len, d, 0.1), "layers": layers,
            "gf": jnp.ones(d), "out": mat(d, vocab)}


def rms_norm(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def forward(params, tokens, heads):
    b, t = tokens.shape
    x = params["tok"][tokens] + params["pos"][:t]
    causal = jnp.tril(jnp.ones((t, t), bool))
    for lp in params["layers"]:
        q, k, v = jnp.split(rms_norm(x, lp["g1"]) @ lp["qkv"], 3, axis=-1)
        q, k, v = (z.reshape(b, t, heads, -1).transpose(0, 2, 1, 3) for z in (q, k, v))
        att = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        att = jax.nn.softmax(jnp.where(causal, att, -1e9), axis=-1)
        x = x + (att @ v).transpose(0, 2, 1, 3).reshape(b, t, -1) @ lp["proj"]
        x = x + jax.nn.gelu(rms_norm(x, lp["g2"]) @ lp["up"]) @ lp["down"]
    return rms_norm(x, params["gf"]) @ params["out"]


def make_step(args):
    def loss_fn(params, tokens, targets, mask):
        logp = jax.nn.log_softmax(forward(params, tokens, args.heads))
        picked = jnp.take_along_axis(logp, targets[..., None], axis=-1)[..., 0]
        return -jnp.sum(picked * mask) / jnp.sum(mask)

    @jax.jit
    def step(params, mu, nu, count, tokens, targets, mask):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets, mask)
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
        nu = jax.tree.map(lambda v, g: 0.98 * v + 0.02 * g * g, nu, grads)
        c1, c2 = 1 - 0.9 ** count, 1 - 0.98 ** count
        params = jax.tree.map(lambda p, m, v: p - args.lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8),
                              params, mu, nu)
        return params, mu, nu, loss

    return step


def get_batch(text, args, length, rng):
    starts = rng.integers(0, len(text) - args.max_len - 1, args.batch_size)
    rows = text[starts[:, None] + np.arange(length + 1)]
    tokens, targets = rows[:, :-1], rows[:, 1:]
    mask = np.ones(tokens.shape, np.float32)
    return tokens, targets, mask


def main():
    args = get_args()
    text, vocab = make_text(200_000, args.seed)
    params = init_params(args, vocab)
    mu = jax.tree.map(jnp.zeros_like, params)
    nu = jax.tree.map(jnp.zeros_like, params)
    train_step = make_step(args)
    rng = np.random.default_rng(args.seed + 1)
    start = time.time()
    for step in range(args.steps):
        length = min(args.max_len, args.min_len + step // args.grow_every)
        tokens, targets, mask = get_batch(text, args, length, rng)
        params, mu, nu, loss = train_step(params, mu, nu, np.float32(step + 1), tokens, targets, mask)
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:4d} len {length} loss {float(loss):.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
