"""Train a denoising diffusion model on 16x16 sprites with JAX.

A residual MLP predicts the noise; Adam with warm-up, and an exponential moving average of the
weights that is used for sampling at the end. Sprites are random axis-aligned rectangles.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

SIDE = 16
PIXELS = SIDE * SIDE
WIDTH = 256
BLOCKS = 4
TIMESTEPS = 200
BATCH = 96
STEPS = 800
BETAS = jnp.linspace(1e-4, 0.03, TIMESTEPS)
ALPHA_BAR = jnp.cumprod(1.0 - BETAS)


def make_sprites(count, rng):
    sprites = -np.ones((count, SIDE, SIDE), dtype=np.float32)
    for sprite in sprites:
        y, x = rng.integers(0, 10, 2)
        h, w = rng.integers(3, 7, 2)
        sprite[y : y + h, x : x + w] = rng.uniform(0.3, 1.0)
    return sprites.reshape(count, PIXELS)


def dense_init(key, n_in, n_out, scale=1.0):
    w = scale * jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in)
    return {"w": w, "b": jnp.zeros(n_out)}


def init_params(key):
    keys = iter(jax.random.split(key, 2 * BLOCKS + 4))
    return {
        "inp": dense_init(next(keys), PIXELS, WIDTH),
        "time": dense_init(next(keys), 32, WIDTH),
        "blocks": [
            {
                "up": dense_init(next(keys), WIDTH, WIDTH),
                "down": dense_init(next(keys), WIDTH, WIDTH, 0.3),
            }
            for _ in range(BLOCKS)
        ],
        "out": dense_init(next(keys), WIDTH, PIXELS, 0.1),
    }


def dense(p, x):
    return x @ p["w"] + p["b"]


def time_features(t):
    freqs = jnp.exp(jnp.linspace(0.0, 5.0, 16))
    angles = (t[:, None] / TIMESTEPS) * freqs
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


def predict_noise(params, x, t):
    h = dense(params["inp"], x)
    cond = dense(params["time"], time_features(t))
    for block in params["blocks"]:
        h = h + dense(block["down"], jax.nn.silu(dense(block["up"], h + cond)))
    return dense(params["out"], h)


def diffusion_loss(params, x0, key):
    t_key, n_key = jax.random.split(key)
    t = jax.random.randint(t_key, (x0.shape[0],), 0, TIMESTEPS)
    noise = jax.random.normal(n_key, x0.shape)
    a = ALPHA_BAR[t][:, None]
    noisy = jnp.sqrt(a) * x0 + jnp.sqrt(1.0 - a) * noise
    return jnp.mean((predict_noise(params, noisy, t) - noise) ** 2)


loss_and_grad = jax.jit(jax.value_and_grad(diffusion_loss))


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"m": zeros, "v": jax.tree.map(jnp.zeros_like, params)}


def adam_update(params, grads, state, step, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["v"], grads)
    rate = lr * jnp.minimum(1.0, step / 100.0)
    scale = rate * jnp.sqrt(1 - b2**step) / (1 - b1**step)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps), params, m, v)
    return params, {"m": m, "v": v}


def ema_update(average, params, decay=0.995):
    return jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, params)


def train_step(params, average, state, x0, key, step):
    loss, grads = loss_and_grad(params, x0, key)
    params, state = adam_update(params, grads, state, step)
    average = ema_update(average, params)
    return params, average, state, loss


@jax.jit
def sample(params, key):
    """Ancestral sampling of 16 sprites."""

    def body(i, carry):
        x, key = carry
        t = TIMESTEPS - 1 - i
        key, sub = jax.random.split(key)
        eps = predict_noise(params, x, jnp.full((16,), t))
        mean = (x - BETAS[t] / jnp.sqrt(1 - ALPHA_BAR[t]) * eps) / jnp.sqrt(1 - BETAS[t])
        noise = jnp.where(t > 0, jnp.sqrt(BETAS[t]), 0.0) * jax.random.normal(sub, x.shape)
        return mean + noise, key

    start_key, key = jax.random.split(key)
    x = jax.random.normal(start_key, (16, PIXELS))
    return jax.lax.fori_loop(0, TIMESTEPS, body, (x, key))[0]


def main():
    rng = np.random.default_rng(0)
    sprites = make_sprites(4096, rng)
    key = jax.random.PRNGKey(0)
    params = init_params(key)
    average, state = params, adam_init(params)

    times = []
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        x0 = sprites[rng.integers(0, len(sprites), BATCH)]
        key, sub = jax.random.split(key)
        params, average, state, loss = train_step(
            params, average, state, x0, sub, jnp.float32(step)
        )
        loss.block_until_ready()
        jax.block_until_ready(average)
        times.append(time.perf_counter() - start)
        if step % 200 == 0:
            print(f"step {step:5d}  loss {float(loss):.4f}")

    sprites = np.asarray(sample(average, key))
    print(f"samples: mean {sprites.mean():.3f} std {sprites.std():.3f}")
    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
