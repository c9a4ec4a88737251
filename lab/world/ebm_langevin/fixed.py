"""Energy-based model for sensor readings, trained with short-run Langevin MCMC.

Follows "Learning Non-Convergent Non-Persistent Short-Run MCMC" (Nijkamp 2019):
negatives start from noise and take K Langevin steps on the current energy.
"""
import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Settings:
    dim: int = 16
    hidden: int = 256
    batch: int = 256
    mcmc_steps: int = 60
    step_size: float = 0.01
    noise: float = 0.03
    lr: float = 1e-3
    iterations: int = 160
    report: int = 2
    seed: int = 0


def sensor_clusters(n, dim, seed=0):
    """Readings of a plant that sits in one of five operating regimes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 1.2, (5, dim))
    mix = rng.normal(0, 0.25, (5, dim, dim))
    regime = rng.integers(0, 5, n)
    x = centres[regime] + np.einsum("nd,nde->ne", rng.normal(size=(n, dim)), mix[regime])
    return x.astype(np.float32)


def init_energy(key, cfg):
    sizes = (cfg.dim, cfg.hidden, 1)
    keys = jax.random.split(key, len(sizes) - 1)
    return [dict(w=jax.random.normal(k, (a, b)) / np.sqrt(a), b=jnp.zeros(b))
            for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def energy(params, x):
    h = x
    for layer in params[:-1]:
        h = jax.nn.silu(h @ layer["w"] + layer["b"])
    return (h @ params[-1]["w"] + params[-1]["b"])[..., 0] + 0.05 * jnp.sum(x ** 2, -1)


class LangevinSampler:
    def __init__(self, cfg):
        self.cfg = cfg
        self.sample = jax.jit(self._sample)

    def _sample(self, params, key):
        cfg = self.cfg
        grad_energy = jax.grad(lambda x: energy(params, x).sum())
        start_key, noise_key = jax.random.split(key)
        x = jax.random.normal(start_key, (cfg.batch, cfg.dim))
        noise = cfg.noise * jax.random.normal(noise_key, (cfg.mcmc_steps, cfg.batch, cfg.dim))

        def body(i, x):
            return x - cfg.step_size * grad_energy(x) + noise[i]

        return jax.lax.fori_loop(0, cfg.mcmc_steps, body, x)


def contrastive_loss(params, pos, neg):
    e_pos, e_neg = energy(params, pos), energy(params, neg)
    return e_pos.mean() - e_neg.mean() + 0.01 * ((e_pos ** 2).mean() + (e_neg ** 2).mean())


@jax.jit
def update(params, moments, pos, neg, t, lr):
    loss, grads = jax.value_and_grad(contrastive_loss)(params, pos, neg)
    m, v = moments
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    lr = lr * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    params = jax.tree.map(lambda p, a, b: p - lr * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, (m, v), loss


def main():
    cfg = Settings()
    data = sensor_clusters(20000, cfg.dim, cfg.seed)
    key, init_key = jax.random.split(jax.random.key(cfg.seed))
    params = init_energy(init_key, cfg)
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    sampler = LangevinSampler(cfg)
    rng = np.random.default_rng(cfg.seed + 1)
    t0 = time.perf_counter()
    for it in range(1, cfg.iterations + 1):
        key, sub = jax.random.split(key)
        pos = data[rng.integers(0, len(data), cfg.batch)]
        neg = sampler.sample(params, sub)
        params, moments, loss = update(params, moments, pos, neg, float(it), cfg.lr)
        if it % cfg.report == 0:
            print(f"it {it} loss {float(loss):+.5f} spread {float(neg.std()):.3f} {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
