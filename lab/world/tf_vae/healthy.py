"""Convolutional beta-VAE with KL warm-up, TensorFlow custom loop."""
import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def sprites(n, seed, size=32):
    """Filled ellipses and boxes with random pose."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size].astype(np.float32) / size - 0.5
    cx, cy = rng.uniform(-0.2, 0.2, (2, n, 1, 1))
    rx, ry = rng.uniform(0.08, 0.25, (2, n, 1, 1))
    angle = rng.uniform(0, np.pi, (n, 1, 1))
    u = (xx - cx) * np.cos(angle) + (yy - cy) * np.sin(angle)
    v = -(xx - cx) * np.sin(angle) + (yy - cy) * np.cos(angle)
    ellipse = (u / rx) ** 2 + (v / ry) ** 2
    box = np.maximum(np.abs(u / rx), np.abs(v / ry)) ** 2
    shape = np.where(rng.random((n, 1, 1)) < 0.5, ellipse, box)
    return (1 / (1 + np.exp(np.clip(12 * (shape - 1), -30, 30)))).astype(np.float32)[..., None]


class VAE(tf.keras.Model):
    def __init__(self, latent):
        super().__init__()
        self.encoder = tf.keras.Sequential([
            layers.Conv2D(16, 4, 2, "same", activation="relu"),
            layers.Conv2D(32, 4, 2, "same", activation="relu"),
            layers.Conv2D(32, 4, 2, "same", activation="relu"),
            layers.Flatten(),
            layers.Dense(2 * latent),
        ])
        self.decoder = tf.keras.Sequential([
            layers.Dense(4 * 4 * 32, activation="relu"),
            layers.Reshape((4, 4, 32)),
            layers.Conv2DTranspose(32, 4, 2, "same", activation="relu"),
            layers.Conv2DTranspose(16, 4, 2, "same", activation="relu"),
            layers.Conv2DTranspose(1, 4, 2, "same"),
        ])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=-1)
        logvar = tf.clip_by_value(logvar, -8.0, 8.0)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar


def elbo_terms(model, x):
    logits, mean, logvar = model(x)
    rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, logits), (1, 2, 3))
    kl = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(logvar) - logvar - 1.0, -1)
    return tf.reduce_mean(rec), tf.reduce_mean(kl)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--latent", type=int, default=10)
    ap.add_argument("--beta", type=float, default=2.0)
    ap.add_argument("--warmup", type=int, default=80, help="steps until beta is reached")
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    tf.keras.utils.set_random_seed(1)
    train_x, val_x = sprites(2048, 0), sprites(512, 1)
    train = (tf.data.Dataset.from_tensor_slices(train_x).shuffle(len(train_x))
             .batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))
    val = tf.data.Dataset.from_tensor_slices(val_x).batch(256)

    model = VAE(args.latent)
    model(train_x[:1])
    optimizer = tf.keras.optimizers.Adam(args.lr)
    optimizer.build(model.trainable_variables)
    rec_mean, kl_mean = tf.keras.metrics.Mean(), tf.keras.metrics.Mean()

    @tf.function
    def train_step(x):
        progress = tf.cast(optimizer.iterations, tf.float32) / args.warmup
        beta = args.beta * tf.minimum(1.0, progress)
        with tf.GradientTape() as tape:
            rec, kl = elbo_terms(model, x)
            loss = rec + beta * kl
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 50.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        rec_mean.update_state(rec)
        kl_mean.update_state(kl)

    @tf.function
    def val_step(x):
        rec, kl = elbo_terms(model, x)
        return rec + args.beta * kl

    steps = len(train_x) // args.batch
    times = []
    with tempfile.TemporaryDirectory() as folder:
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=model, optimizer=optimizer), folder, max_to_keep=2)
        for epoch in range(args.epochs):
            rec_mean.reset_state()
            kl_mean.reset_state()
            start = time.perf_counter()
            for x in train:
                train_step(x)
            rec, kl = rec_mean.result().numpy(), kl_mean.result().numpy()
            times.append((time.perf_counter() - start) / steps)
            val_loss = np.mean([val_step(x).numpy() for x in val])
            print(f"epoch {epoch} rec {rec:.2f} kl {kl:.2f} val {val_loss:.2f}", flush=True)
        saved = manager.save()
        print("saved", os.path.basename(saved))
    print(f"{1000 * np.median(times[1:]):.2f} ms/step")


if __name__ == "__main__":
    main()
