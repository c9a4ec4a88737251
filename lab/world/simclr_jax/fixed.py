"""SimCLR on small synthetic textures, JAX only."""

import time

import jax
import jax.numpy as jnp
import numpy as np

SIZE, CROP, BATCH, STEPS = 32, 24, 16, 260
TEMP, LR = 0.2, 3e-3


def textures(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE] / SIZE
    cls = rng.integers(0, 6, n)
    f = (3 + 2 * cls + rng.normal(0, 0.2, n))[:, None, None]
    ang = rng.uniform(0, np.pi, n)[:, None, None]
    base = np.sin(
        2 * np.pi * f * (xx * np.cos(ang) + yy * np.sin(ang)) + rng.uniform(0, 6, n)[:, None, None]
    )
    col = rng.uniform(0.3, 1.0, (n, 1, 1, 3))
    return (0.5 + 0.5 * base[..., None] * col).astype(np.float32), cls


# ---------------------------------------------------------------- augmentation
def augment(key, img):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    off = jax.random.randint(k1, (2,), 0, SIZE - CROP + 1)
    img = jax.lax.dynamic_slice(img, (off[0], off[1], 0), (CROP, CROP, 3))
    img = jnp.where(jax.random.bernoulli(k2), img[:, ::-1], img)
    img = img * jax.random.uniform(k3, (1, 1, 3), minval=0.6, maxval=1.4)
    return img + 0.05 * jax.random.normal(k4, img.shape)


@jax.jit
def augment_batch(key, imgs):
    keys = jax.random.split(key, len(imgs))
    return jax.vmap(augment)(keys, imgs)


# ---------------------------------------------------------------- model
def conv_init(key, k, i, o):
    return {
        "w": jax.random.normal(key, (k, k, i, o)) * np.sqrt(2.0 / (k * k * i)),
        "b": jnp.zeros(o),
    }


def init(key):
    k = jax.random.split(key, 5)
    return {
        "c1": conv_init(k[0], 3, 3, 16),
        "c2": conv_init(k[1], 3, 16, 32),
        "c3": conv_init(k[2], 3, 32, 64),
        "p1": jax.random.normal(k[3], (64, 64)) * 0.15,
        "p2": jax.random.normal(k[4], (64, 32)) * 0.15,
    }


def conv(p, x, stride):
    y = jax.lax.conv_general_dilated(
        x, p["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(y + p["b"])


def encode(p, x):
    return conv(p["c3"], conv(p["c2"], conv(p["c1"], x, 2), 2), 2).mean((1, 2))


def nt_xent(p, a, b):
    z = jax.nn.relu(encode(p, jnp.concatenate([a, b])) @ p["p1"]) @ p["p2"]
    z = z / (jnp.linalg.norm(z, axis=1, keepdims=True) + 1e-6)
    n = a.shape[0]
    sim = z @ z.T / TEMP - 1e9 * jnp.eye(2 * n)
    target = jnp.concatenate([jnp.arange(n) + n, jnp.arange(n)])
    return -jnp.mean(jax.nn.log_softmax(sim)[jnp.arange(2 * n), target])


@jax.jit
def train_step(p, mom, a, b):
    loss, g = jax.value_and_grad(nt_xent)(p, a, b)
    mom = jax.tree.map(lambda m, g: 0.9 * m + g, mom, g)
    p = jax.tree.map(lambda w, m: w - LR * m, p, mom)
    return p, mom, loss


def knn_accuracy(p, x, y):
    f = np.asarray(jax.jit(encode)(p, x[:600, 4:28, 4:28]))
    f = f / (np.linalg.norm(f, axis=1, keepdims=True) + 1e-6)
    s = f[300:] @ f[:300].T
    return float((y[:300][s.argmax(1)] == y[300:600]).mean())


def main():
    x, y = textures()
    rng = np.random.default_rng(1)
    key = jax.random.PRNGKey(0)
    params = init(jax.random.PRNGKey(42))
    mom = jax.tree.map(jnp.zeros_like, params)
    t0, total = None, 0.0
    for step in range(STEPS):
        imgs = x[rng.integers(0, len(x), BATCH)]
        key, k1, k2 = jax.random.split(key, 3)
        a, b = augment_batch(k1, imgs), augment_batch(k2, imgs)
        params, mom, loss = train_step(params, mom, a, b)
        total += float(loss)
        if step == 4:
            t0 = time.time()
        if (step + 1) % 40 == 0:
            print(
                f"step {step + 1} loss {total / 40:.5f}  {(time.time() - t0) / (step - 4) * 1000:.2f} ms/step",
                flush=True,
            )
            total = 0.0
        if (step + 1) % 130 == 0:
            print(f"   knn acc {knn_accuracy(params, x, y):.3f}")


if __name__ == "__main__":
    main()
