"""Learn the signed distance field of a 2D shape with an eikonal penalty (JAX)."""
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Config:
    widths: tuple = (2, 96, 96, 96, 1)
    n_surface: int = 12000
    n_volume: int = 72
    surface_batch: int = 4096
    epochs: int = 10
    steps_per_epoch: int = 40
    peak_lr: float = 2e-3
    warmup: int = 30
    eikonal_weight: float = 0.1
    normal_weight: float = 0.3
    seed: int = 0


def star_shape(n, rng):
    """Points and normals on a smooth five-lobed curve."""
    t = rng.uniform(0, 2 * np.pi, n)
    r = 0.55 + 0.12 * np.cos(5 * t)
    dr = -0.6 * np.sin(5 * t)
    pts = np.stack([r * np.cos(t), r * np.sin(t)], 1)
    tangent = np.stack([dr * np.cos(t) - r * np.sin(t), dr * np.sin(t) + r * np.cos(t)], 1)
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], 1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return pts.astype(np.float32), normal.astype(np.float32)


def init_params(key, widths):
    params = []
    for i, (a, b) in enumerate(zip(widths[:-1], widths[1:])):
        key, sub = jax.random.split(key)
        params.append((jax.random.normal(sub, (a, b)) * np.sqrt(2.0 / a), jnp.zeros(b)))
    return params


def distance(params, pts):
    """Predicted distance for a batch of points, shape (n,)."""
    h = pts
    for w, b in params[:-1]:
        h = jax.nn.softplus(20.0 * (h @ w + b)) / 20.0
    w, b = params[-1]
    return (h @ w + b)[:, 0]


def spatial_gradient(params, pts):
    """d distance / d point at every point, shape (n, 2)."""
    jac = jax.jacrev(lambda p: distance(params, p))(pts)
    return jac[jnp.arange(pts.shape[0]), jnp.arange(pts.shape[0])]


def loss_fn(params, surface, normals, volume, cfg):
    on_surface = jnp.mean(jnp.abs(distance(params, surface)))
    n_dir = normals.shape[0] // 128
    grad_s = spatial_gradient(params, surface[:n_dir])
    grad_v = spatial_gradient(params, volume)
    unit = grad_s / jnp.sqrt(jnp.sum(grad_s ** 2, axis=1, keepdims=True) + 1e-9)
    alignment = jnp.mean(1.0 - jnp.sum(unit * normals[:n_dir], axis=1))
    norm = jnp.sqrt(jnp.sum(grad_v ** 2, axis=1) + 1e-9)
    eikonal = jnp.mean((norm - 1.0) ** 2)
    away = jnp.mean(jnp.exp(-50.0 * jnp.abs(distance(params, volume))))
    total = on_surface + cfg.eikonal_weight * eikonal + cfg.normal_weight * alignment + 0.05 * away
    return total, {"surface": on_surface, "eikonal": eikonal, "normal": alignment}


def learning_rate(step, cfg):
    total = cfg.epochs * cfg.steps_per_epoch
    warm = jnp.minimum(1.0, (step + 1) / cfg.warmup)
    return cfg.peak_lr * warm * 0.5 * (1 + jnp.cos(jnp.pi * step / total))


def make_step(cfg):
    @jax.jit
    def step(params, opt, batch):
        (_, parts), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, *batch, cfg)
        count = opt["count"] + 1
        lr = learning_rate(opt["count"], cfg)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, opt["m"], grads)
        v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, opt["v"], grads)
        params = jax.tree.map(
            lambda p, a, b: p - lr * (a / (1 - 0.9 ** count)) / (jnp.sqrt(b / (1 - 0.99 ** count)) + 1e-8),
            params, m, v)
        return params, {"m": m, "v": v, "count": count}, parts
    return step


@jax.jit
def grid_distance(params, grid):
    return distance(params, grid)


def main():
    cfg = Config()
    rng = np.random.default_rng(cfg.seed)
    surface, normals = star_shape(cfg.n_surface, rng)
    params = init_params(jax.random.key(cfg.seed), cfg.widths)
    opt = {"m": jax.tree.map(jnp.zeros_like, params), "v": jax.tree.map(jnp.zeros_like, params),
           "count": jnp.zeros((), jnp.int32)}
    step = make_step(cfg)
    axis = np.linspace(-1, 1, 64, dtype=np.float32)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)

    times = []
    for epoch in range(cfg.epochs):
        sums = None
        start = time.perf_counter()
        for _ in range(cfg.steps_per_epoch):
            idx = rng.integers(0, cfg.n_surface, cfg.surface_batch)
            volume = rng.uniform(-1, 1, (cfg.n_volume, 2)).astype(np.float32)
            params, opt, parts = step(params, opt, (surface[idx], normals[idx], volume))
            sums = parts if sums is None else jax.tree.map(jnp.add, sums, parts)
        sums = jax.device_get(sums)
        times.append((time.perf_counter() - start) / cfg.steps_per_epoch)
        inside = float(np.mean(np.asarray(grid_distance(params, grid)) < 0))
        msg = " ".join(f"{k} {float(v) / cfg.steps_per_epoch:.4f}" for k, v in sums.items())
        print(f"epoch {epoch} {msg} inside {inside:.3f}", flush=True)
    print(f"{1000 * np.median(times[1:]):.2f} ms/step")


if __name__ == "__main__":
    main()
