"""Denoising diffusion on small texture patches with a time-conditioned residual MLP (JAX)."""
import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--patch", type=int, default=12)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--blocks", type=int, default=8)
    p.add_argument("--timesteps", type=int, default=200)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--ema", type=float, default=0.995)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def make_patches(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    angle = rng.uniform(0, np.pi, (n, 1, 1))
    freq = rng.uniform(0.4, 1.2, (n, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
    wave = np.sin(freq * (np.cos(angle) * xx + np.sin(angle) * yy) + phase)
    return wave.reshape(n, -1).astype(np.float32)


def dense_init(rng, n_in, n_out, scale=1.0):
    w = rng.standard_normal((n_in, n_out)) * scale / np.sqrt(n_in)
    return {"w": jnp.asarray(w, jnp.float32), "b": jnp.zeros(n_out)}


def init_params(args):
    rng = np.random.default_rng(args.seed)
    dim = args.patch ** 2
    blocks = []
    for _ in range(args.blocks):
        blocks.append({"time": dense_init(rng, 64, args.width),
                       "fc1": dense_init(rng, args.width, args.width),
                       "fc2": dense_init(rng, args.width, args.width, 0.1),
                       "scale": jnp.ones(args.width), "shift": jnp.zeros(args.width)})
    return {"inp": dense_init(rng, dim, args.width), "blocks": blocks,
            "out": dense_init(rng, args.width, dim, 0.1)}


def dense(p, x):
    return x @ p["w"] + p["b"]


def denoise(params, x, t):
    freqs = jnp.exp(-jnp.arange(32) * 0.25)
    ang = t[:, None] * freqs[None]
    emb = jnp.concatenate([jnp.sin(ang), jnp.cos(ang)], axis=1)
    h = dense(params["inp"], x)
    for blk in params["blocks"]:
        mean = h.mean(-1, keepdims=True)
        var = h.var(-1, keepdims=True)
        y = (h - mean) * jax.lax.rsqrt(var + 1e-5) * blk["scale"] + blk["shift"]
        y = jax.nn.silu(dense(blk["fc1"], y) + dense(blk["time"], emb))
        h = h + dense(blk["fc2"], y)
    return dense(params["out"], h)


def make_loss(args):
    betas = jnp.linspace(1e-4, 0.05, args.timesteps)
    abar = jnp.cumprod(1.0 - betas)

    def loss_fn(params, x0, key):
        k1, k2 = jax.random.split(key)
        t = jax.random.randint(k1, (x0.shape[0],), 0, args.timesteps)
        noise = jax.random.normal(k2, x0.shape)
        a = abar[t][:, None]
        xt = jnp.sqrt(a) * x0 + jnp.sqrt(1 - a) * noise
        return jnp.mean((denoise(params, xt, t.astype(jnp.float32)) - noise) ** 2)

    return jax.jit(jax.value_and_grad(loss_fn))


def apply_updates(params, ema, mu, nu, grads, count, lr, decay):
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, nu, grads)
    c1, c2 = 1.0 - 0.9 ** count, 1.0 - 0.999 ** count
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    ema = jax.tree.map(lambda e, p: decay * e + (1.0 - decay) * p, ema, params)
    return params, ema, mu, nu


def main():
    args = get_args()
    data = make_patches(20000, args.patch, args.seed)
    params = init_params(args)
    ema = params
    mu = jax.tree.map(jnp.zeros_like, params)
    nu = jax.tree.map(jnp.zeros_like, params)
    grad_fn = make_loss(args)
    key = jax.random.PRNGKey(args.seed)
    rng = np.random.default_rng(args.seed + 1)
    start = time.time()
    for step in range(args.steps):
        batch = data[rng.integers(0, len(data), args.batch_size)]
        key, sub = jax.random.split(key)
        loss, grads = grad_fn(params, batch, sub)
        params, ema, mu, nu = apply_updates(params, ema, mu, nu, grads, step + 1.0, args.lr, args.ema)
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {float(loss):.4f} time {time.time() - start:.1f}s", flush=True)
    loss, _ = grad_fn(ema, data[:args.batch_size], jax.random.PRNGKey(99))
    print(f"loss with averaged weights {float(loss):.4f}")


if __name__ == "__main__":
    main()
