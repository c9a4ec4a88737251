"""Beta-VAE on synthetic blobs, custom training loop, KL weight warmed up over the epochs."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

STEPS = int(os.environ.get("STEPS", "480"))
SIDE, LATENT, BATCH = 28, 10, 64
N_IMAGES = 768
WARMUP_EPOCHS = 100


def make_blobs(n, seed):
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:SIDE, 0:SIDE].astype("float32")
    cx, cy = rng.uniform(7, 21, (2, n, 1, 1))
    sx, sy = rng.uniform(1.5, 5.0, (2, n, 1, 1))
    img = np.exp(-((xs - cx) ** 2 / (2 * sx ** 2) + (ys - cy) ** 2 / (2 * sy ** 2)))
    return img.astype("float32")[..., None]


def build_encoder():
    inp = keras.Input((SIDE, SIDE, 1))
    h = layers.Conv2D(16, 3, 2, "same", activation="relu")(inp)
    h = layers.Conv2D(32, 3, 2, "same", activation="relu")(h)
    h = layers.Flatten()(h)
    h = layers.Dense(128, activation="relu")(h)
    return keras.Model(inp, [layers.Dense(LATENT)(h), layers.Dense(LATENT)(h)])


def build_decoder():
    inp = keras.Input((LATENT,))
    h = layers.Dense(128, activation="relu")(inp)
    h = layers.Dense(7 * 7 * 32, activation="relu")(h)
    h = layers.Reshape((7, 7, 32))(h)
    h = layers.Conv2DTranspose(32, 3, 2, "same", activation="relu")(h)
    h = layers.Conv2DTranspose(16, 3, 2, "same", activation="relu")(h)
    return keras.Model(inp, layers.Conv2D(1, 3, padding="same")(h))


class Trainer:
    def __init__(self):
        self.enc, self.dec = build_encoder(), build_decoder()
        self.opt = keras.optimizers.Adam(1e-3)
        self.weights = self.enc.trainable_weights + self.dec.trainable_weights
        self.opt.build(self.weights)

    @tf.function
    def train_step(self, images, beta):
        with tf.GradientTape() as tape:
            mean, logvar = self.enc(images, training=True)
            eps = tf.random.normal(tf.shape(mean))
            z = mean + tf.exp(0.5 * logvar) * eps
            logits = self.dec(z, training=True)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
            rec = tf.reduce_mean(tf.reduce_sum(bce, axis=[1, 2, 3]))
            kl = -0.5 * tf.reduce_mean(
                tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), axis=1))
            loss = rec + beta * kl
        grads = tape.gradient(loss, self.weights)
        grads, _ = tf.clip_by_global_norm(grads, 10.0)
        self.opt.apply_gradients(zip(grads, self.weights))
        return rec, kl


def main():
    keras.utils.set_random_seed(0)
    ds = (tf.data.Dataset.from_tensor_slices(make_blobs(N_IMAGES, 1))
          .shuffle(N_IMAGES, seed=2).batch(BATCH, drop_remainder=True).prefetch(2))
    trainer = Trainer()

    step, epoch = 0, 0
    while step < STEPS:
        beta = tf.constant(min(1.0, epoch / WARMUP_EPOCHS), tf.float32)
        for images in ds:
            rec, kl = trainer.train_step(images, beta)
            step += 1
            if step % 60 == 0 or step == STEPS:
                print(f"step {step} beta {float(beta):.3f} rec {float(rec):.3f} kl {float(kl):.3f}", flush=True)
            if step >= STEPS:
                break
        epoch += 1


if __name__ == "__main__":
    main()
