"""A tiny radiance field fitted to views of an analytic scene (JAX, hand-written Adam)."""
import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

SIZE, VIEWS, FREQS = 64, 24, 6
SPHERES = np.array([[0.0, 0.0, 0.0, 0.5], [0.5, 0.3, -0.2, 0.3], [-0.4, -0.3, 0.3, 0.35]])
COLORS = np.array([[0.9, 0.2, 0.2], [0.2, 0.8, 0.3], [0.2, 0.3, 0.9]])


def camera_pose(angle, height):
    pos = np.array([2.5 * np.cos(angle), 2.5 * np.sin(angle), height])
    forward = -pos / np.linalg.norm(pos)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    return pos, np.stack([right, up, forward], axis=1)


def view_rays(angle, height):
    pos, rot = camera_pose(angle, height)
    v, u = np.meshgrid(np.linspace(0.5, -0.5, SIZE), np.linspace(-0.5, 0.5, SIZE), indexing="ij")
    d = np.stack([u, v, np.full_like(u, 1.0)], axis=-1).reshape(-1, 3) @ rot.T
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    return np.broadcast_to(pos, d.shape), d


def trace(origins, dirs):
    color = np.ones((len(origins), 3))
    best = np.full(len(origins), np.inf)
    for (cx, cy, cz, r), c in zip(SPHERES, COLORS):
        oc = origins - np.array([cx, cy, cz])
        b = (oc * dirs).sum(1)
        disc = b ** 2 - ((oc ** 2).sum(1) - r ** 2)
        t = -b - np.sqrt(np.maximum(disc, 0))
        hit = (disc > 0) & (t < best)
        normal = (oc + t[:, None] * dirs) / r
        color[hit] = (c * (0.4 + 0.6 * np.clip(normal @ [0.3, 0.5, 0.8], 0, 1))[:, None])[hit]
        best[hit] = t[hit]
    return color


def make_rays(seed):
    rng = np.random.default_rng(seed)
    rays = [view_rays(rng.uniform(0, 2 * np.pi), rng.uniform(-1, 1.5)) for _ in range(VIEWS)]
    origins = np.concatenate([r[0] for r in rays])
    dirs = np.concatenate([r[1] for r in rays])
    return origins, dirs, trace(origins, dirs)


def init_params(key, width):
    sizes = [3 + 6 * FREQS, width, width, width, 4]
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (a, b)) * jnp.sqrt(2.0 / a), jnp.zeros(b))
            for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def field(params, x):
    scaled = x[..., None, :] * (2.0 ** jnp.arange(FREQS))[:, None]
    h = jnp.concatenate([x, jnp.sin(scaled).reshape(len(x), -1), jnp.cos(scaled).reshape(len(x), -1)], axis=-1)
    for w, b in params[:-1]:
        h = jax.nn.relu(h @ w + b)
    out = h @ params[-1][0] + params[-1][1]
    return jax.nn.softplus(out[:, 0] - 1.0), jax.nn.sigmoid(out[:, 1:])


def render(params, origins, dirs, key, samples):
    edges = jnp.linspace(1.2, 3.8, samples + 1)
    t = edges[:-1] + (edges[1:] - edges[:-1]) * jax.random.uniform(key, (len(origins), samples))
    points = origins[:, None] + t[..., None] * dirs[:, None]
    sigma, rgb = field(params, points.reshape(-1, 3))
    sigma, rgb = sigma.reshape(-1, samples), rgb.reshape(-1, samples, 3)
    alpha = 1.0 - jnp.exp(-4.0 * sigma * (edges[1] - edges[0]))
    trans = jnp.cumprod(1.0 - alpha + 1e-10, axis=1)
    weights = alpha * jnp.concatenate([jnp.ones((len(origins), 1)), trans[:, :-1]], axis=1)
    return (weights[..., None] * rgb).sum(1) + (1.0 - weights.sum(1, keepdims=True))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--rays", type=int, default=384)
    p.add_argument("--samples", type=int, default=32)
    p.add_argument("--width", type=int, default=96)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    @jax.jit
    def train_step(params, m, v, count, key, batch):
        origins, dirs, target = batch

        def loss_fn(params):
            return jnp.mean((render(params, origins, dirs, key, args.samples) - target) ** 2)

        loss, grads = jax.value_and_grad(loss_fn)(params)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
        c1, c2 = 1 - 0.9 ** count, 1 - 0.99 ** count
        params = jax.tree.map(lambda p, a, b: p - args.lr * (a / c1) / (jnp.sqrt(b / c2) + 1e-8), params, m, v)
        return params, m, v, loss

    origins, dirs, colors = make_rays(seed=0)
    key = jax.random.PRNGKey(0)
    params = init_params(key, args.width)
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    rng = np.random.default_rng(1)
    start = time.time()
    for step in range(1, args.steps + 1):
        idx = rng.integers(0, len(origins), args.rays)
        key, sub = jax.random.split(key)
        params, m, v, loss = train_step(params, m, v, float(step), sub, (origins[idx], dirs[idx], colors[idx]))
        if step % 20 == 0:
            print(f"step {step} mse {float(loss):.5f} psnr {-10 * np.log10(float(loss)):.2f} "
                  f"elapsed {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
