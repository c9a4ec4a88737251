"""Convolutional VAE with a KL warm-up, TF2 custom loop; the warm-up weight is passed as a tensor."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

LATENT = 16


def make_images(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:32, 0:32].astype(np.float32) / 32
    ang = rng.uniform(0, np.pi, (n, 1, 1))
    freq = rng.uniform(2, 6, (n, 1, 1))
    img = 0.5 + 0.5 * np.sin(2 * np.pi * freq * (xx * np.cos(ang) + yy * np.sin(ang)))
    return img.astype(np.float32)[..., None]


def build():
    L = tf.keras.layers
    x = tf.keras.Input((32, 32, 1))
    h = L.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
    h = L.Conv2D(32, 3, strides=2, padding="same", activation="relu")(h)
    h = L.Flatten()(h)
    encoder = tf.keras.Model(x, L.Dense(2 * LATENT)(h))
    z = tf.keras.Input((LATENT,))
    h = L.Reshape((8, 8, 32))(L.Dense(8 * 8 * 32, activation="relu")(z))
    h = L.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu")(h)
    h = L.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(h)
    decoder = tf.keras.Model(z, L.Conv2D(1, 3, padding="same")(h))
    return encoder, decoder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=500)
    args = parser.parse_args()
    tf.random.set_seed(0)

    encoder, decoder = build()
    variables = encoder.trainable_variables + decoder.trainable_variables
    optimizer = tf.keras.optimizers.Adam(args.lr)
    optimizer.build(variables)

    @tf.function(reduce_retracing=True)
    def train_step(x, beta):
        with tf.GradientTape() as tape:
            mean, logvar = tf.split(encoder(x, training=True), 2, axis=1)
            z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
            logits = decoder(z, training=True)
            rec = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
            rec = tf.reduce_mean(tf.reduce_sum(rec, axis=[1, 2, 3]))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), axis=1))
            loss = rec + beta * kl
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return rec, kl

    data = tf.data.Dataset.from_tensor_slices(make_images(4096))
    data = data.cache().shuffle(4096, seed=0).repeat().batch(args.batch, drop_remainder=True).prefetch(2)
    betas = tf.constant(np.minimum(1.0, np.arange(args.steps) / args.warmup), tf.float32)
    start = time.time()
    for step, x in enumerate(data.take(args.steps)):
        rec, kl = train_step(x, betas[step])
        if (step + 1) % 25 == 0:
            print(f"step {step + 1} rec {float(rec):.2f} kl {float(kl):.2f} {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
