"""A small neural radiance field fitted to posed renderings of a toy scene."""
import os
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "350"))
VIEWS, RES = 20, 44
RAYS = 320           # rays per step
SAMPLES = 24         # points per ray
NEAR, FAR = 1.5, 4.5
FREQS = 6


def camera_rays(angle, height):
    origin = 3.0 * np.array([np.cos(angle), np.sin(angle), height])
    forward = -origin / np.linalg.norm(origin)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    u, v = np.meshgrid(np.linspace(-0.45, 0.45, RES), np.linspace(0.45, -0.45, RES))
    direction = forward + u[..., None] * right + v[..., None] * up
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return np.broadcast_to(origin, direction.shape).reshape(-1, 3), direction.reshape(-1, 3)


def shade(origin, direction):
    """Ray-traced colours of five coloured spheres on a white background."""
    rng = np.random.default_rng(7)
    colour, nearest = np.ones_like(direction), np.full(len(direction), np.inf)
    for _ in range(5):
        centre, radius = rng.uniform(-0.7, 0.7, 3), rng.uniform(0.2, 0.4)
        oc = origin - centre
        b = (oc * direction).sum(1)
        disc = b * b - (oc * oc).sum(1) + radius ** 2
        t = -b - np.sqrt(np.maximum(disc, 0))
        hit = (disc > 0) & (t < nearest)
        normal = (origin + t[:, None] * direction - centre) / radius
        lit = 0.35 + 0.65 * np.maximum(normal @ np.array([0.4, 0.3, 0.87]), 0)
        colour[hit] = (lit[:, None] * rng.uniform(0.2, 1.0, 3))[hit]
        nearest[hit] = t[hit]
    return colour


def make_rays():
    parts = [camera_rays(2 * np.pi * i / VIEWS, 0.3 + 0.3 * (i % 3)) for i in range(VIEWS)]
    origin = np.concatenate([p[0] for p in parts])
    direction = np.concatenate([p[1] for p in parts])
    rays = np.concatenate([origin, direction, shade(origin, direction)], 1)
    return jnp.asarray(rays, jnp.float32)


def encode(x):
    scaled = x[..., None, :] * (2.0 ** jnp.arange(FREQS))[:, None] * jnp.pi
    waves = jnp.concatenate([jnp.sin(scaled), jnp.cos(scaled)], -1)
    return jnp.concatenate([x, waves.reshape(*x.shape[:-1], -1)], -1)


def init_params(key, width=96):
    sizes = [3 + 6 * FREQS, width, width, width, 4]
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": jax.random.normal(k, (i, o)) * jnp.sqrt(2.0 / i), "b": jnp.zeros(o)}
            for k, i, o in zip(keys, sizes[:-1], sizes[1:])]


def field(params, points):
    h = encode(points)
    for layer in params[:-1]:
        h = jax.nn.relu(h @ layer["w"] + layer["b"])
    out = h @ params[-1]["w"] + params[-1]["b"]
    return jax.nn.sigmoid(out[..., :3]), jax.nn.softplus(out[..., 3])


def render(params, key, origin, direction):
    edges = jnp.linspace(NEAR, FAR, SAMPLES + 1)
    jitter = jax.random.uniform(key, (origin.shape[0], SAMPLES))
    t = edges[:-1] + jitter * (edges[1] - edges[0])
    points = origin[:, None] + t[..., None] * direction[:, None]
    rgb, sigma = field(params, points)
    delta = jnp.diff(t, axis=1, append=FAR + 0.1)
    alpha = 1 - jnp.exp(-sigma * delta)
    clear = jnp.cumprod(1 - alpha + 1e-10, axis=1)
    weight = alpha * jnp.concatenate([jnp.ones_like(clear[:, :1]), clear[:, :-1]], 1)
    return (weight[..., None] * rgb).sum(1) + 1 - weight.sum(1, keepdims=True)


@partial(jax.jit, donate_argnums=0)
def train_step(state, rays, lr):
    params, m, v, count, key = state
    key, pick_key, jitter_key = jax.random.split(key, 3)
    pick = jax.random.randint(pick_key, (RAYS,), 0, rays.shape[0])
    batch = rays[pick]

    def loss_fn(p):
        colour = render(p, jitter_key, batch[:, :3], batch[:, 3:6])
        return jnp.mean((colour - batch[:, 6:]) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    count = count + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    scale = lr * jnp.sqrt(1 - 0.99 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return (params, m, v, count, key), loss


def main():
    rays = make_rays()
    init_key, key = jax.random.split(jax.random.key(0))
    params = init_params(init_key)
    state = (params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params),
             jnp.zeros((), jnp.int32), key)
    start = time.time()
    for step in range(1, STEPS + 1):
        lr = 2e-3 * 0.1 ** (step / STEPS)
        state, loss = train_step(state, rays, lr)
        if step % 25 == 0:
            psnr = -10 * np.log10(float(loss))
            print(f"step {step:4d}  psnr {psnr:.2f} dB  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
