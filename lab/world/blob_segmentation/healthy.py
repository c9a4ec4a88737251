"""Fully convolutional cell segmentation in JAX."""
import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=48)
    p.add_argument("--images", type=int, default=600)
    p.add_argument("--channels", type=int, default=16)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=23)
    return p.parse_args()


def make_images(args):
    rng = np.random.default_rng(args.seed)
    yy, xx = np.mgrid[0:args.size, 0:args.size]
    mask = np.zeros((args.images, args.size, args.size), bool)
    for _ in range(4):
        cy, cx = rng.uniform(6, args.size - 6, (2, args.images, 1, 1))
        r = rng.uniform(3, 8, (args.images, 1, 1))
        mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
    image = 0.8 * mask + rng.normal(0, 0.6, mask.shape)
    return image[..., None].astype(np.float32), mask.astype(np.float32)


def init_params(args):
    rng = np.random.default_rng(args.seed + 1)

    def conv_init(k, cin, cout):
        w = rng.standard_normal((k, k, cin, cout)) * np.sqrt(2.0 / (k * k * cin))
        return {"w": jnp.asarray(w, jnp.float32), "b": jnp.zeros(cout)}

    c = args.channels
    return {"a1": conv_init(3, 1, c), "a2": conv_init(3, c, c), "b1": conv_init(3, c, 2 * c),
            "b2": conv_init(3, 2 * c, 2 * c), "up": conv_init(3, 3 * c, c), "out": conv_init(1, c, 1)}


def conv(p, x, stride=1):
    y = jax.lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p["b"]


def forward(params, x):
    a = jax.nn.relu(conv(params["a1"], x))
    a = jax.nn.relu(conv(params["a2"], a))
    b = jax.nn.relu(conv(params["b1"], a, 2))
    b = jax.nn.relu(conv(params["b2"], b))
    b = jnp.repeat(jnp.repeat(b, 2, axis=1), 2, axis=2)
    y = jax.nn.relu(conv(params["up"], jnp.concatenate([a, b], axis=-1)))
    return conv(params["out"], y)[..., 0]


def loss_fn(params, x, y):
    logit = forward(params, x)
    bce = jnp.mean(jnp.maximum(logit, 0) - logit * y + jnp.log1p(jnp.exp(-jnp.abs(logit))))
    prob = jax.nn.sigmoid(logit)
    dice = 1 - (2 * jnp.sum(prob * y) + 1) / (jnp.sum(prob) + jnp.sum(y) + 1)
    return bce + dice


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
def train_step(params, mu, nu, count, x, y, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, nu, grads)
    c1, c2 = 1 - 0.9 ** count, 1 - 0.999 ** count
    params = jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    return params, mu, nu, loss


def main():
    args = get_args()
    images, masks = make_images(args)
    params = init_params(args)
    mu = jax.tree.map(jnp.zeros_like, params)
    nu = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(args.seed + 2)
    start = time.time()
    for step in range(args.steps):
        idx = rng.integers(0, args.images, args.batch_size)
        params, mu, nu, loss = train_step(params, mu, nu, np.float32(step + 1), images[idx], masks[idx], args.lr)
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {float(loss):.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
