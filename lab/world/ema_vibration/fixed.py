"""Bearing-fault classifier on vibration windows, pure JAX.

I evaluate with averaged weights (like in the diffusion papers). Step time is
much more than what I get from timing only the gradient step. CPU box.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

SEQ, CH, WIDTH, DEPTH, CLASSES = 48, 8, 32, 5, 6
BATCH, STEPS = 16, 140


def make_data(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    t = np.arange(SEQ) / SEQ
    freq = 2 + 3 * y[:, None, None] + rng.normal(0, 0.3, (n, 1, CH))
    phase = rng.uniform(0, 2 * np.pi, (n, 1, CH))
    x = np.sin(2 * np.pi * freq * t[None, :, None] + phase)
    x += rng.normal(0, 0.8, x.shape)
    return x.astype(np.float32), y.astype(np.int32)


def dense_init(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) / np.sqrt(n_in), "b": jnp.zeros((n_out,))}


def init_params(key):
    keys = iter(jax.random.split(key, 4 * DEPTH + 2))
    blocks = []
    for _ in range(DEPTH):
        blocks.append(
            {
                "time1": dense_init(next(keys), SEQ, 2 * SEQ),
                "time2": dense_init(next(keys), 2 * SEQ, SEQ),
                "chan1": dense_init(next(keys), WIDTH, 2 * WIDTH),
                "chan2": dense_init(next(keys), 2 * WIDTH, WIDTH),
                "scale": jnp.ones((2, WIDTH)),
            }
        )
    return {
        "stem": dense_init(next(keys), CH, WIDTH),
        "blocks": blocks,
        "head": dense_init(next(keys), WIDTH, CLASSES),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def norm(x, scale):
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def apply(params, x):
    h = dense(params["stem"], x)
    for blk in params["blocks"]:
        z = jnp.swapaxes(norm(h, blk["scale"][0]), 1, 2)
        z = dense(blk["time2"], jax.nn.relu(dense(blk["time1"], z)))
        h = h + jnp.swapaxes(z, 1, 2)
        z = norm(h, blk["scale"][1])
        h = h + dense(blk["chan2"], jax.nn.relu(dense(blk["chan1"], z)))
    return dense(params["head"], h.mean(1))


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(apply(params, x))
    return -jnp.take_along_axis(logp, y[:, None], 1).mean()


@jax.jit
def train_step(params, mom, x, y):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y)
    mom = jax.tree_util.tree_map(lambda m, d: 0.9 * m + d, mom, g)
    params = jax.tree_util.tree_map(lambda p, m: p - 0.02 * m, params, mom)
    return params, mom, loss


@jax.jit
def blend(shadow, params, d):
    return jax.tree_util.tree_map(lambda s, p: d * s + (1.0 - d) * p, shadow, params)


class Averager:
    """Shadow copy of the weights, with the usual warm-up of the decay."""

    def __init__(self, params, decay=0.999):
        self.decay = decay
        self.n = 0
        self.shadow = jax.tree_util.tree_map(jnp.array, params)

    def current_decay(self):
        return min(self.decay, (1 + self.n) / (10 + self.n))

    def update(self, params):
        d = self.current_decay()
        self.shadow = blend(self.shadow, params, d)
        self.n += 1


accuracy = jax.jit(lambda p, x, y: jnp.mean(jnp.argmax(apply(p, x), -1) == y))


def main():
    x, y = make_data()
    xv, yv = make_data(400, seed=1)
    params = init_params(jax.random.PRNGKey(0))
    mom = jax.tree_util.tree_map(jnp.zeros_like, params)
    ema = Averager(params)
    rng = np.random.default_rng(2)
    times = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        idx = rng.integers(0, len(x), BATCH)
        params, mom, loss = train_step(params, mom, x[idx], y[idx])
        ema.update(params)
        loss = float(loss)
        times.append(time.perf_counter() - t0)
        if step % 20 == 0:
            print(f"step {step:4d} loss {loss:.4f}")
    print(f"ema accuracy {float(accuracy(ema.shadow, xv, yv)):.3f}")
    print(f"median step {1e3 * np.median(times[10:]):.2f} ms")


if __name__ == "__main__":
    main()
