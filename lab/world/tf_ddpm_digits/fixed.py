"""Denoising diffusion on tiny seven-segment digits with a custom training loop."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

T = 200
BATCH = 64
SEGMENTS = {
    0: "abcdef",
    1: "bc",
    2: "abged",
    3: "abgcd",
    4: "fgbc",
    5: "afgcd",
    6: "afgedc",
    7: "abc",
    8: "abcdefg",
    9: "abcdfg",
}
STROKES = {
    "a": (slice(2, 4), slice(4, 12)),
    "b": (slice(3, 8), slice(11, 13)),
    "c": (slice(8, 13), slice(11, 13)),
    "d": (slice(12, 14), slice(4, 12)),
    "e": (slice(8, 13), slice(3, 5)),
    "f": (slice(3, 8), slice(3, 5)),
    "g": (slice(7, 9), slice(4, 12)),
}


def digits(n, seed=0):
    rng = np.random.default_rng(seed)
    x = -np.ones((n, 16, 16, 1), np.float32)
    for img, d in zip(x, rng.integers(0, 10, n)):
        for s in SEGMENTS[int(d)]:
            img[STROKES[s]] = rng.uniform(0.6, 1.0)
        img[:] = np.roll(img, rng.integers(-2, 3, 2), axis=(0, 1))
    return x


class Diffusion:
    def __init__(self, steps=T):
        beta = np.linspace(1e-4, 0.03, steps)
        bar = np.cumprod(1 - beta)
        self.signal = tf.constant(np.sqrt(bar), tf.float32)
        self.sigma = tf.constant(np.sqrt(1 - bar), tf.float32)

    def add_noise(self, x, t, eps):
        a = tf.reshape(tf.gather(self.signal, t), [-1, 1, 1, 1])
        b = tf.reshape(tf.gather(self.sigma, t), [-1, 1, 1, 1])
        return a * x + b * eps


def denoiser(width=32):
    img = keras.Input((16, 16, 1))
    t = keras.Input((), dtype="int32")
    emb = layers.Dense(width, activation="swish")(layers.Embedding(T, width)(t))
    emb = layers.Reshape((1, 1, width))(emb)
    h0 = layers.Conv2D(width, 3, padding="same")(img)
    h1 = layers.Conv2D(2 * width, 3, 2, padding="same", activation="swish")(h0 + emb)
    h1 = layers.Conv2D(2 * width, 3, padding="same", activation="swish")(h1)
    up = layers.Conv2DTranspose(width, 4, 2, padding="same", activation="swish")(h1)
    h = layers.Conv2D(width, 3, padding="same", activation="swish")(layers.Concatenate()([up, h0]))
    return keras.Model([img, t], layers.Conv2D(1, 3, padding="same")(h))


keras.utils.set_random_seed(5)
model = denoiser()
optimizer = keras.optimizers.Adam(1e-3)
diffusion = Diffusion()


@tf.function
def update(noisy, t, eps):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model([noisy, t], training=True) - eps) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices(digits(2048))
data = data.cache().shuffle(2048, seed=1).batch(BATCH, drop_remainder=True).prefetch(2)

step = 0
for epoch in range(4):
    losses = []
    for x in data:
        t = tf.random.uniform([BATCH], 0, T, dtype=tf.int32)
        eps = tf.random.normal(x.shape)
        noisy = diffusion.add_noise(x, t, eps)
        losses.append(update(noisy, t, eps))
        step += 1
    print(f"epoch {epoch} step {step} loss {np.mean([float(l) for l in losses]):.4f}")
