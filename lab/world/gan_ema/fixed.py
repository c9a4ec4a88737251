import os
import time
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Config:
    latent: int = 128
    width: int = 1024
    side: int = 28
    batch: int = 64
    steps: int = 160
    lr_g: float = 2e-4
    lr_d: float = 2e-4
    ema: float = 0.995
    log_every: int = 40
    seed: int = 21


def make_digits(n, side, rng):
    """Blurry strokes: segments with random endpoints, rendered as distance fields."""
    yy, xx = np.mgrid[0:side, 0:side].astype(np.float32) / side
    p = rng.uniform(0.2, 0.8, (n, 2, 2)).astype(np.float32)
    d = p[:, 1] - p[:, 0]
    rel_y = yy[None] - p[:, 0, 0, None, None]
    rel_x = xx[None] - p[:, 0, 1, None, None]
    along = (rel_y * d[:, 0, None, None] + rel_x * d[:, 1, None, None]) / (d**2).sum(-1)[:, None, None]
    along = np.clip(along, 0, 1)
    dist2 = (rel_y - along * d[:, 0, None, None]) ** 2 + (rel_x - along * d[:, 1, None, None]) ** 2
    return (2 * np.exp(-dist2 / 0.003) - 1).reshape(n, side * side)


def generator(cfg):
    z = keras.Input((cfg.latent,))
    x = z
    for i in range(3):
        x = layers.Dense(cfg.width, use_bias=False)(x)
        x = layers.LayerNormalization()(x)
        x = layers.LeakyReLU(0.2)(x)
    return keras.Model(z, layers.Dense(cfg.side**2, activation="tanh")(x), name="generator")


def discriminator(cfg):
    img = keras.Input((cfg.side**2,))
    x = layers.Dense(384)(img)
    x = layers.LeakyReLU(0.2)(x)
    x = layers.Dense(192)(x)
    x = layers.LeakyReLU(0.2)(x)
    return keras.Model(img, layers.Dense(1)(x), name="discriminator")


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g, self.d = generator(cfg), discriminator(cfg)
        self.g_ema = generator(cfg)
        self.g_ema.set_weights(self.g.get_weights())
        self.opt_g = keras.optimizers.Adam(cfg.lr_g, beta_1=0.5)
        self.opt_d = keras.optimizers.Adam(cfg.lr_d, beta_1=0.5)
        self.opt_g.build(self.g.trainable_variables)
        self.opt_d.build(self.d.trainable_variables)

    @tf.function(jit_compile=False)
    def step(self, real):
        n = tf.shape(real)[0]
        z = tf.random.normal((n, self.cfg.latent))
        fake = self.g(z, training=True)
        with tf.GradientTape() as tape:
            r, f = self.d(real, training=True), self.d(fake, training=True)
            loss_d = tf.reduce_mean(tf.nn.softplus(-r)) + tf.reduce_mean(tf.nn.softplus(f))
        grads = tape.gradient(loss_d, self.d.trainable_variables)
        self.opt_d.apply_gradients(zip(grads, self.d.trainable_variables))

        z = tf.random.normal((n, self.cfg.latent))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([v.value for v in self.g.trainable_variables])
            loss_g = tf.reduce_mean(tf.nn.softplus(-self.d(self.g(z, training=True), training=True)))
        grads = tape.gradient(loss_g, self.g.trainable_variables)
        self.opt_g.apply_gradients(zip(grads, self.g.trainable_variables))
        return loss_d, loss_g

    @tf.function
    def update_average(self):
        rate = 1.0 - self.cfg.ema
        for old, new in zip(self.g_ema.weights, self.g.weights):
            old.value.assign_sub(rate * (old.value - new.value))


def run(cfg=Config()):
    keras.utils.set_random_seed(cfg.seed)
    images = make_digits(4096, cfg.side, np.random.default_rng(cfg.seed))
    ds = tf.data.Dataset.from_tensor_slices(images).shuffle(4096, seed=1).repeat()
    ds = ds.batch(cfg.batch).prefetch(2).take(cfg.steps)
    trainer = Trainer(cfg)
    laps, mark = [], time.perf_counter()
    for i, real in enumerate(ds, 1):
        loss_d, loss_g = trainer.step(real)
        trainer.update_average()
        if i % cfg.log_every == 0:
            print(f"{i:5d}  D {float(loss_d):.3f}  G {float(loss_g):.3f}")
        now = time.perf_counter()
        laps.append(now - mark)
        mark = now
    sample = trainer.g_ema(tf.random.normal((256, cfg.latent), seed=3), training=False)
    print(f"ema sample mean {float(tf.reduce_mean(sample)):.3f}, real mean {images.mean():.3f}")
    print(f"{len(laps)} steps, median {1e3 * np.median(laps):.1f} ms")


if __name__ == "__main__":
    run()
