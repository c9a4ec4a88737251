"""Variational autoencoder with KL annealing, custom training loop in TF2 / Keras."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

tf.random.set_seed(0)

LATENT = 16
BATCH = 256
STEPS = 90
ANNEAL_STEPS = 400      # beta goes 0 -> 1 over this many steps


def strokes(n=4096, size=28, seed=0):
    """Random thick line drawings, values in [0, 1]."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype("float32") / (size - 1)
    a = rng.uniform(0, np.pi, (n, 1, 1)).astype("float32")
    c = rng.uniform(0.3, 0.7, (n, 2, 1, 1)).astype("float32")
    d = np.abs((xx - c[:, 0]) * np.sin(a) - (yy - c[:, 1]) * np.cos(a))
    return np.clip(1.5 - d * 12, 0, 1).astype("float32")[..., None]


class VAE(keras.Model):
    def __init__(self, latent):
        super().__init__()
        self.encoder = keras.Sequential([
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(2 * latent),
        ])
        self.decoder = keras.Sequential([
            layers.Dense(512, activation="relu"),
            layers.Dense(28 * 28),
            layers.Reshape((28, 28, 1)),
        ])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar


model = VAE(LATENT)
model(tf.zeros((1, 28, 28, 1)))
optimizer = keras.optimizers.SGD(1e-4, momentum=0.9)


@tf.function
def train_step(x, beta):
    with tf.GradientTape() as tape:
        logits, mean, logvar = model(x)
        rec = tf.reduce_mean(tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=[1, 2, 3]))
        kl = tf.reduce_mean(-0.5 * tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), axis=1))
        loss = rec + beta * kl
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return rec, kl


dataset = (tf.data.Dataset.from_tensor_slices(strokes())
           .shuffle(4096, seed=1).repeat().batch(BATCH).prefetch(2))

rec_metric = keras.metrics.Mean()
kl_metric = keras.metrics.Mean()
times = []
t0 = time.perf_counter()
for step, x in enumerate(dataset.take(STEPS)):
    beta = tf.constant(min(1.0, step / ANNEAL_STEPS), tf.float32)
    rec, kl = train_step(x, beta)
    rec_metric.update_state(rec)
    kl_metric.update_state(kl)
    t1 = time.perf_counter()
    times.append(t1 - t0)
    t0 = t1
    if (step + 1) % 30 == 0:
        print(f"step {step + 1}: rec {rec_metric.result():.2f} kl {kl_metric.result():.2f} beta {beta:.3f}")
        rec_metric.reset_state()
        kl_metric.reset_state()

print(f"ms per step: {np.median(times[10:]) * 1000:.2f}")
