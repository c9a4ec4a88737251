"""Autoregressive language model over protein sequences (amino-acid tokens)."""
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

STEPS = int(os.environ.get("STEPS", "350"))
RESIDUES = 22        # 20 amino acids, start, pad
LENGTH = 64
BATCH = 8
LAYERS, WIDTH, HEADS = 4, 64, 4
B1, B2, EPS, DECAY = 0.9, 0.98, 1e-9, 0.01


def make_families(count=4000, seed=0):
    """Sequences drawn from a few Markov 'families' with mutations."""
    rng = np.random.default_rng(seed)
    tables = rng.dirichlet(np.full(20, 0.15), size=(6, 20)).cumsum(-1)
    family = rng.integers(6, size=count)
    out = np.empty((count, LENGTH + 1), np.int32)
    out[:, 0] = 20
    state = rng.integers(20, size=count)
    for t in range(1, LENGTH + 1):
        u = rng.random(count)[:, None]
        state = np.minimum((tables[family, state] < u).sum(1), 19)
        mutate = rng.random(count) < 0.03
        state[mutate] = rng.integers(20, size=mutate.sum())
        out[:, t] = state
    return out


def init_params(key):
    def dense(k, i, o):
        return jax.random.normal(k, (i, o)) * (i ** -0.5)

    keys = iter(jax.random.split(key, 4 * LAYERS + 3))
    params = {"token": dense(next(keys), RESIDUES, WIDTH), "place": dense(next(keys), LENGTH, WIDTH),
              "out": dense(next(keys), WIDTH, RESIDUES), "blocks": []}
    for _ in range(LAYERS):
        params["blocks"].append({
            "qkv": dense(next(keys), WIDTH, 3 * WIDTH), "qkv_b": jnp.zeros(3 * WIDTH),
            "proj": dense(next(keys), WIDTH, WIDTH), "proj_b": jnp.zeros(WIDTH),
            "up": dense(next(keys), WIDTH, 4 * WIDTH), "up_b": jnp.zeros(4 * WIDTH),
            "down": dense(next(keys), 4 * WIDTH, WIDTH), "down_b": jnp.zeros(WIDTH),
            "ln1": jnp.ones(WIDTH), "ln1_b": jnp.zeros(WIDTH),
            "ln2": jnp.ones(WIDTH), "ln2_b": jnp.zeros(WIDTH)})
    return params


def norm(x, scale, bias):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + bias


def attention(x, p):
    b, t, _ = x.shape
    q, k, v = jnp.split((x @ p["qkv"] + p["qkv_b"]).reshape(b, t, HEADS, -1), 3, axis=-1)
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(b, t, WIDTH) @ p["proj"] + p["proj_b"]


def forward(params, tokens):
    x = params["token"][tokens] + params["place"]
    for p in params["blocks"]:
        x = x + attention(norm(x, p["ln1"], p["ln1_b"]), p)
        h = jax.nn.gelu(norm(x, p["ln2"], p["ln2_b"]) @ p["up"] + p["up_b"])
        x = x + h @ p["down"] + p["down_b"]
    return x @ params["out"]


def loss_fn(params, batch):
    logp = jax.nn.log_softmax(forward(params, batch[:, :-1]))
    picked = jnp.take_along_axis(logp, batch[:, 1:, None], axis=-1)
    return -picked.mean()


def adamw(params, grads, m, v, step, lr):
    m = jax.tree.map(lambda a, g: B1 * a + (1 - B1) * g, m, grads)
    v = jax.tree.map(lambda a, g: B2 * a + (1 - B2) * jnp.square(g), v, grads)

    def update(p, a, b):
        a_hat = a / (1 - B1 ** step)
        b_hat = b / (1 - B2 ** step)
        return p - lr * (a_hat / (jnp.sqrt(b_hat) + EPS) + DECAY * p)

    return jax.tree.map(update, params, m, v), m, v


@jax.jit
def train_step(params, m, v, batch, step, lr):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    params, m, v = adamw(params, grads, m, v, step, lr)
    return params, m, v, loss


def learning_rate(step, peak=2e-3, warmup=50):
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def main():
    data = make_families()
    rng = np.random.default_rng(1)
    params = init_params(jax.random.key(0))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    start = time.time()
    for step in range(1, STEPS + 1):
        batch = jnp.asarray(data[rng.integers(len(data), size=BATCH)])
        params, m, v, loss = train_step(params, m, v, batch, step, learning_rate(step))
        if step % 50 == 0:
            print(f"step {step:4d}  nll {float(loss):.4f}  perplexity {np.exp(float(loss)):.2f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
