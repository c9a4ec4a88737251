"""Denoising diffusion on 16x16 synthetic textures: small residual conv net, Adam and EMA written out by hand."""
import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

T = 200
IMG = 16
WIDTH = 24


def make_images(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:IMG, 0:IMG] / IMG
    fx, fy = rng.integers(1, 4, (2, n, 1, 1))
    ph = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    return np.sin(2 * np.pi * (fx * xx + fy * yy) + ph).astype(np.float32)[..., None]


def init_conv(key, cin, cout, k=3):
    w = jax.random.normal(key, (k, k, cin, cout)) * (2.0 / (k * k * cin)) ** 0.5
    return {"w": w, "b": jnp.zeros((cout,))}


def init_params(key, blocks):
    keys = iter(jax.random.split(key, 4 * blocks + 4))
    params = {"in": init_conv(next(keys), 1, WIDTH), "out": init_conv(next(keys), WIDTH, 1), "blocks": []}
    for _ in range(blocks):
        params["blocks"].append({
            "norm": {"g": jnp.ones((WIDTH,)), "b": jnp.zeros((WIDTH,))},
            "conv1": init_conv(next(keys), WIDTH, WIDTH),
            "conv2": init_conv(next(keys), WIDTH, WIDTH),
            "time": {"w": jax.random.normal(next(keys), (32, WIDTH)) * 0.1, "b": jnp.zeros((WIDTH,))},
        })
    return params


def conv(p, x):
    y = jax.lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"]


def time_embedding(t):
    freqs = jnp.exp(-jnp.arange(16) * (np.log(1000.0) / 15))
    ang = t[:, None] * freqs
    return jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=1)


def model(params, x, t):
    emb = time_embedding(t.astype(jnp.float32))
    h = conv(params["in"], x)
    for blk in params["blocks"]:
        r = (h - h.mean(-1, keepdims=True)) / (h.std(-1, keepdims=True) + 1e-5)
        r = r * blk["norm"]["g"] + blk["norm"]["b"]
        r = jax.nn.silu(conv(blk["conv1"], r))
        r = r + (emb @ blk["time"]["w"] + blk["time"]["b"])[:, None, None, :]
        h = h + conv(blk["conv2"], jax.nn.silu(r))
    return conv(params["out"], jax.nn.silu(h))


betas = np.linspace(1e-4, 0.03, T, dtype=np.float32)
alpha_bar = jnp.asarray(np.cumprod(1.0 - betas))


def loss_fn(params, x0, key):
    kt, kn = jax.random.split(key)
    t = jax.random.randint(kt, (x0.shape[0],), 0, T)
    noise = jax.random.normal(kn, x0.shape)
    a = alpha_bar[t][:, None, None, None]
    pred = model(params, jnp.sqrt(a) * x0 + jnp.sqrt(1.0 - a) * noise, t)
    return jnp.mean((pred - noise) ** 2)


grad_fn = jax.jit(jax.value_and_grad(loss_fn))


@jax.jit
def adam_update(params, grads, state, lr, b1=0.9, b2=0.999, eps=1e-8):
    count = state["count"] + 1
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    c1, c2 = 1 - b1 ** count, 1 - b2 ** count
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + eps), params, m, v)
    return params, {"m": m, "v": v, "count": count}


@jax.jit
def ema_update(ema, params, decay):
    return jax.tree.map(lambda e, p: decay * e + (1 - decay) * p, ema, params)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--ema-decay", type=float, default=0.995)
    args = parser.parse_args()

    data = make_images(4096)
    rng = np.random.default_rng(1)
    key = jax.random.PRNGKey(0)
    params = init_params(key, args.blocks)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"m": zeros, "v": zeros, "count": jnp.zeros((), jnp.float32)}
    ema = params

    start = time.time()
    for step in range(1, args.steps + 1):
        key, sub = jax.random.split(key)
        x0 = data[rng.integers(0, len(data), args.batch)]
        loss, grads = grad_fn(params, x0, sub)
        params, state = adam_update(params, grads, state, args.lr)
        ema = ema_update(ema, params, args.ema_decay)
        if step % 25 == 0:
            print(f"step {step} loss {float(loss):.4f} {time.time() - start:.1f}s", flush=True)

    val = grad_fn(ema, make_images(args.batch, 9), jax.random.PRNGKey(3))[0]
    print(f"ema validation loss {float(val):.4f}")


if __name__ == "__main__":
    main()
