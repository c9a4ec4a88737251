"""Causal transformer learning a language of nested brackets."""
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

VOCAB = 10
LENGTH = 64
WIDTH = 96
HEADS = 4
LAYERS = 3
BATCH = 24
STEPS = 300


def make_corpus(n, rng):
    out = np.zeros((n, LENGTH + 1), np.int32)
    for row in out:
        stack = []
        for k in range(LENGTH + 1):
            if stack and (len(stack) > 8 or rng.random() < 0.48):
                row[k] = stack.pop() + 5
            else:
                stack.append(rng.integers(0, 5))
                row[k] = stack[-1]
    return out


def matrix(key, m, n):
    return jax.random.normal(key, (m, n)) / np.sqrt(m)


def init_params(key):
    k = jax.random.split(key, 4 * LAYERS + 2)
    layers = [{"qkv": matrix(k[4 * i], WIDTH, 3 * WIDTH), "proj": 0.3 * matrix(k[4 * i + 1], WIDTH, WIDTH),
               "up": matrix(k[4 * i + 2], WIDTH, 4 * WIDTH), "down": 0.3 * matrix(k[4 * i + 3], 4 * WIDTH, WIDTH),
               "n1": jnp.ones(WIDTH), "n2": jnp.ones(WIDTH)} for i in range(LAYERS)]
    return {"tok": 0.1 * matrix(k[-2], VOCAB, WIDTH) * np.sqrt(VOCAB),
            "pos": 0.02 * jax.random.normal(k[-1], (LENGTH, WIDTH)), "layers": layers,
            "norm": jnp.ones(WIDTH)}


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def attention(layer, x):
    b = x.shape[0]
    q, k, v = jnp.split((x @ layer["qkv"]).reshape(b, LENGTH, HEADS, -1), 3, axis=-1)
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(b, LENGTH, WIDTH) @ layer["proj"]


def logits_fn(params, tokens):
    x = params["tok"][tokens] + params["pos"]
    for layer in params["layers"]:
        x = x + attention(layer, rms(x, layer["n1"]))
        x = x + jax.nn.relu(rms(x, layer["n2"]) @ layer["up"]) @ layer["down"]
    return rms(x, params["norm"]) @ params["tok"].T


def loss_fn(params, rows):
    logp = jax.nn.log_softmax(logits_fn(params, rows[:, :-1]))
    return -jnp.take_along_axis(logp, rows[:, 1:, None], -1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, moments, count, rows):
    loss, grads = jax.value_and_grad(loss_fn)(params, rows)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, moments[0], grads)
    v = jax.tree.map(lambda a, g: 0.98 * a + 0.02 * g * g, moments[1], grads)
    rate = 2e-3 * jnp.sqrt(1 - 0.98 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return params, (m, v), loss


def main():
    rng = np.random.default_rng(2)
    corpus, held = make_corpus(2000, rng), make_corpus(64, rng)
    params = init_params(jax.random.key(0))
    moments = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    evaluate = jax.jit(loss_fn)
    start = time.time()
    for step in range(1, STEPS + 1):
        rows = corpus[rng.integers(0, len(corpus), BATCH)]
        params, moments, loss = train_step(params, moments, np.float32(step), rows)
        if step % 50 == 0:
            test = float(evaluate(params, held))
            print(f"step {step:4d} loss {float(loss):.4f} test {test:.4f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
