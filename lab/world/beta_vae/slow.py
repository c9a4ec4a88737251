"""Conv VAE with KL warm-up, TF2 custom training loop."""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.get_logger().setLevel("ERROR")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=140)
    p.add_argument("--batch", type=int, default=48)
    p.add_argument("--latent", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=400)
    return p.parse_args()


def shapes(n=3000, size=32, seed=0):
    """random rectangles and discs, like dSprites but worse"""
    rng = np.random.RandomState(seed)
    yy, xx = np.mgrid[:size, :size]
    out = np.zeros((n, size, size, 1), np.float32)
    for i in range(n):
        cy, cx, r = rng.uniform(8, size - 8), rng.uniform(8, size - 8), rng.uniform(3, 8)
        if rng.rand() < 0.5:
            out[i, ..., 0] = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        else:
            out[i, ..., 0] = (abs(yy - cy) < r) & (abs(xx - cx) < r * 0.7)
    return out


class VAE(tf.keras.Model):
    def __init__(self, latent):
        super().__init__()
        self.enc = tf.keras.Sequential(
            [
                layers.Conv2D(12, 3, 2, "same", activation="relu"),
                layers.Conv2D(24, 3, 2, "same", activation="relu"),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(2 * latent),
            ]
        )
        self.dec = tf.keras.Sequential(
            [
                layers.Dense(8 * 8 * 16, activation="relu"),
                layers.Reshape((8, 8, 16)),
                layers.Conv2DTranspose(16, 3, 2, "same", activation="relu"),
                layers.Conv2DTranspose(12, 3, 2, "same", activation="relu"),
                layers.Conv2D(1, 3, 1, "same"),
            ]
        )

    def call(self, x, eps):
        mu, logvar = tf.split(self.enc(x), 2, axis=1)
        z = mu + tf.exp(0.5 * logvar) * eps
        return self.dec(z), mu, logvar


def beta_schedule(step, warmup):
    return round(min(1.0, step / warmup), 2)


def main():
    args = parse()
    tf.keras.utils.set_random_seed(0)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    data = shapes()
    ds = (
        tf.data.Dataset.from_tensor_slices(data)
        .shuffle(len(data), seed=0)
        .repeat()
        .batch(args.batch)
        .prefetch(1)
    )
    model = VAE(args.latent)
    opt = tf.keras.optimizers.Adam(args.lr)
    model(data[:1], tf.zeros((1, args.latent)))
    opt.build(model.trainable_variables)
    gen = tf.random.Generator.from_seed(1)

    @tf.function
    def train_step(x, beta):
        eps = gen.normal((args.batch, args.latent))
        with tf.GradientTape() as tape:
            logits, mu, logvar = model(x, eps)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
            rec = tf.reduce_mean(tf.reduce_sum(bce, axis=[1, 2, 3]))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mu**2 - tf.exp(logvar), axis=1))
            loss = rec + beta * kl
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss, rec, kl

    t0 = time.time()
    for step, x in enumerate(ds.take(args.steps)):
        beta = beta_schedule(step, args.warmup)
        loss, rec, kl = train_step(x, beta)
        if (step + 1) % 20 == 0:
            print(
                f"{step + 1:4d} loss {float(loss):.4f} rec {float(rec):.4f} kl {float(kl):.4f} beta {beta:.3f}",
                flush=True,
            )
        if step == 0:
            t0 = time.time()
    print(f"{(time.time() - t0) / (args.steps - 1) * 1000:.2f} ms/step")
    recon, _, _ = model(data[:8], tf.zeros((8, args.latent)))
    print("recon mean", float(tf.reduce_mean(tf.sigmoid(recon))))


if __name__ == "__main__":
    main()
