"""Probabilistic load forecasting with a GRU encoder, plain JAX."""
import pathlib
import pickle
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

N_SERIES = 60
CONTEXT = 72
HORIZON = 24
HIDDEN = 64
BATCH = 64
STEPS = 360
EVAL_EVERY = 24
QUANTILES = np.array([0.1, 0.5, 0.9], np.float32)


def make_series(n, length, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    daily = np.sin(2 * np.pi * (t[None] + rng.uniform(0, 24, (n, 1))) / 24)
    weekly = np.cos(2 * np.pi * (t[None] + rng.uniform(0, 168, (n, 1))) / 168)
    noise = np.zeros((n, length))
    shock = rng.normal(0, 0.15, (n, length))
    for i in range(1, length):
        noise[:, i] = 0.9 * noise[:, i - 1] + shock[:, i]
    y = rng.uniform(0.6, 1.5, (n, 1)) * daily + 0.4 * weekly + noise
    hour = np.stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24)], 1)
    return y.astype(np.float32), hour.astype(np.float32)


def windows(series, hour, rng, size, lo, hi):
    rows = rng.integers(0, len(series), size)
    starts = rng.integers(lo, hi - CONTEXT - HORIZON, size)
    idx = starts[:, None] + np.arange(CONTEXT + HORIZON)
    y, f = series[rows[:, None], idx], hour[idx]
    past = np.concatenate([y[:, :CONTEXT, None], f[:, :CONTEXT]], -1)
    return past, f[:, CONTEXT:].reshape(size, -1), y[:, CONTEXT:]


def dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros(n_out)}


def init_params(key):
    k = jax.random.split(key, 5)
    return {
        "in1": dense(k[0], 3, 3 * HIDDEN), "rec1": dense(k[1], HIDDEN, 3 * HIDDEN),
        "mix": dense(k[2], HIDDEN + 2 * HORIZON, 128), "mid": dense(k[3], 128, 128),
        "out": dense(k[4], 128, HORIZON * len(QUANTILES)),
    }


def apply(layer, x):
    return x @ layer["w"] + layer["b"]


def gru(p_in, p_rec, xs):
    gates = jnp.swapaxes(apply(p_in, xs), 0, 1)

    def cell(h, g):
        r = apply(p_rec, h)
        gz, gr, gn = jnp.split(g, 3, -1)
        rz, rr, rn = jnp.split(r, 3, -1)
        z = jax.nn.sigmoid(gz + rz)
        n = jnp.tanh(gn + jax.nn.sigmoid(gr + rr) * rn)
        h = (1 - z) * n + z * h
        return h, None

    h, _ = jax.lax.scan(cell, jnp.zeros((xs.shape[0], HIDDEN)), gates)
    return h


def predict(params, past, future):
    loc = past[:, :, :1].mean(1, keepdims=True)
    scaled = jnp.concatenate([past[:, :, :1] - loc, past[:, :, 1:]], -1)
    h = gru(params["in1"], params["rec1"], scaled)
    h = jax.nn.gelu(apply(params["mix"], jnp.concatenate([h, future], -1)))
    h = h + jax.nn.gelu(apply(params["mid"], h))
    return apply(params["out"], h).reshape(-1, HORIZON, len(QUANTILES)) + loc


def pinball(params, past, future, target):
    err = target[:, :, None] - predict(params, past, future)
    return jnp.mean(jnp.maximum(QUANTILES * err, (QUANTILES - 1) * err))


@jax.jit
def train_step(params, opt, batch, step):
    loss, grads = jax.value_and_grad(pinball)(params, *batch)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), grads)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, opt[0], grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, opt[1], grads)
    lr = 3e-3 * 0.5 * (1 + jnp.cos(jnp.pi * step / STEPS))
    new = jax.tree.map(
        lambda p, a, b: p - lr * (a / (1 - 0.9 ** (step + 1))) / (jnp.sqrt(b / (1 - 0.999 ** (step + 1))) + 1e-8),
        params, m, v)
    return new, (m, v), loss


@jax.jit
def score(params, past, future, target):
    q = predict(params, past, future)
    err = target[:, :, None] - q
    loss = jnp.mean(jnp.maximum(QUANTILES * err, (QUANTILES - 1) * err))
    inside = (target >= q[..., 0]) & (target <= q[..., 2])
    return {"pinball": loss, "coverage": jnp.mean(inside), "mae": jnp.mean(jnp.abs(err[..., 1]))}


def evaluate(params, held_out):
    rows = [score(params, *batch) for batch in held_out]
    return {k: float(np.mean([r[k] for r in rows])) for k in rows[0]}


series, hour = make_series(N_SERIES, 24 * 7 * 8)
cut = int(series.shape[1] * 0.8)
rng = np.random.default_rng(1)
held_out = [windows(series, hour, rng, 128, cut, series.shape[1]) for _ in range(4)]
params = init_params(jax.random.key(0))
zeros = jax.tree.map(jnp.zeros_like, params)
opt = (zeros, zeros)
best, losses = np.inf, []

with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    for step in range(STEPS):
        batch = windows(series, hour, rng, BATCH, 0, cut)
        params, opt, loss = train_step(params, opt, batch, step)
        losses.append(loss)
        if (step + 1) % EVAL_EVERY == 0:
            result = evaluate(params, held_out)
            if result["pinball"] < best:
                best = result["pinball"]
                path = pathlib.Path(folder) / "best.pkl"
                path.write_bytes(pickle.dumps(jax.device_get(params)))
            print(f"step {step + 1} train {float(jnp.mean(jnp.stack(losses[-EVAL_EVERY:]))):.4f} "
                  + " ".join(f"{k} {v:.4f}" for k, v in result.items()), flush=True)
    took = time.perf_counter() - start
print(f"{1000 * took / STEPS:.2f} ms/step, best pinball {best:.4f}")
