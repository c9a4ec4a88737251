"""Instance discrimination with a memory bank on synthetic feature vectors (JAX)."""
import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

DIM_IN, DIM_OUT = 48, 64


def make_samples(count, clusters, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 1, size=(clusters, 12)).astype(np.float32)
    proj = rng.normal(0, 0.4, size=(12, DIM_IN)).astype(np.float32)
    label = rng.integers(0, clusters, count)
    latent = centers[label] + 0.5 * rng.standard_normal((count, 12), dtype=np.float32)
    x = np.tanh(latent @ proj) + 0.1 * rng.standard_normal((count, DIM_IN), dtype=np.float32)
    return x, label


def init_encoder(key, hidden):
    sizes = [DIM_IN, hidden, hidden, DIM_OUT]
    keys = jax.random.split(key, 3)
    return [{"w": jax.random.normal(k, (a, b)) * np.sqrt(2.0 / a), "b": jnp.zeros(b)}
            for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def encode(params, x):
    for layer in params[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    z = x @ params[-1]["w"] + params[-1]["b"]
    return z / (jnp.linalg.norm(z, axis=1, keepdims=True) + 1e-6)


def augment(key, x):
    k1, k2 = jax.random.split(key)
    keep = jax.random.bernoulli(k1, 0.85, x.shape)
    return jnp.where(keep, x, 0.0) + 0.05 * jax.random.normal(k2, x.shape)


def nce_loss(params, x, positives, negatives, temperature):
    z = encode(params, x)
    pos = jnp.sum(z * positives, axis=1, keepdims=True)
    neg = z @ negatives.T
    logits = jnp.concatenate([pos, neg], axis=1) / temperature
    return -jnp.mean(jax.nn.log_softmax(logits)[:, 0]), z


@partial(jax.jit, static_argnames=("temperature", "lr"))
def train_step(state, bank, x, idx, neg_idx, key, temperature=0.1, lr=0.05):
    params, velocity = state
    (loss, z), grads = jax.value_and_grad(nce_loss, has_aux=True)(
        params, augment(key, x), bank[idx], bank[neg_idx], temperature)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return (params, velocity), z, loss


@jax.jit
def update_bank(bank, idx, z):
    fresh = 0.5 * bank[idx] + 0.5 * z
    fresh = fresh / jnp.linalg.norm(fresh, axis=1, keepdims=True)
    return bank.at[idx].set(fresh)


def knn_accuracy(params, x, label, queries=256):
    z = np.asarray(encode(params, x[:8192]))
    sim = z[:queries] @ z[queries:].T
    nearest = label[queries:8192][sim.argmax(1)]
    return float((nearest == label[:queries]).mean())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--samples", type=int, default=160000)
    p.add_argument("--clusters", type=int, default=40)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--negatives", type=int, default=2048)
    p.add_argument("--hidden", type=int, default=320)
    args = p.parse_args()

    x, label = make_samples(args.samples, args.clusters)
    key = jax.random.PRNGKey(0)
    params = init_encoder(key, args.hidden)
    state = (params, jax.tree.map(jnp.zeros_like, params))
    bank = jax.random.normal(jax.random.PRNGKey(1), (args.samples, DIM_OUT))
    bank = bank / jnp.linalg.norm(bank, axis=1, keepdims=True)

    rng = np.random.default_rng(2)
    start = time.time()
    for step in range(1, args.steps + 1):
        idx = rng.integers(0, args.samples, args.batch_size)
        neg_idx = rng.integers(0, args.samples, args.negatives)
        key, sub = jax.random.split(key)
        state, z, loss = train_step(state, bank, x[idx], idx, neg_idx, sub)
        bank = update_bank(bank, idx, z)
        if step % 50 == 0:
            print(f"step {step} loss {float(loss):.4f} elapsed {time.time() - start:.2f}s", flush=True)
    print(f"knn accuracy {knn_accuracy(state[0], x, label):.3f}")


if __name__ == "__main__":
    main()
