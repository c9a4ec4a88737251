"""WGAN-GP on spiral point sets: several critic updates per generator update, custom loop."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

STEPS = int(os.environ.get("STEPS", "600"))
BATCH, LATENT, CRITIC_STEPS, GP_WEIGHT = 192, 8, 5, 1.0


def make_spirals(n, seed):
    rng = np.random.default_rng(seed)
    t = np.sqrt(rng.uniform(0.05, 1, n)) * 3 * np.pi
    arm = rng.integers(0, 2, n) * np.pi
    pts = np.stack([t * np.cos(t + arm), t * np.sin(t + arm)], 1) / (3 * np.pi)
    return (pts + 0.015 * rng.standard_normal((n, 2))).astype("float32")


def mlp(din, dout, width, name):
    inp = keras.Input((din,))
    h = inp
    for _ in range(3):
        h = layers.Dense(width)(h)
        h = layers.LeakyReLU(negative_slope=0.2)(h)
    return keras.Model(inp, layers.Dense(dout)(h), name=name)


class WGAN:
    def __init__(self):
        self.gen = mlp(LATENT, 2, 128, "generator")
        self.critic = mlp(2, 1, 160, "critic")
        self.g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9)
        self.c_opt = keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9)
        self.g_opt.build(self.gen.trainable_variables)
        self.c_opt.build(self.critic.trainable_variables)

    def penalty(self, real, fake):
        mix = tf.random.uniform((tf.shape(real)[0], 1))
        points = mix * real + (1 - mix) * fake
        with tf.GradientTape() as tape:
            tape.watch(points)
            score = self.critic(points, training=True)
        slope = tf.norm(tape.gradient(score, points) + 1e-12, axis=1)
        return tf.reduce_mean((slope - 1.0) ** 2)

    def critic_step(self, real):
        fake = self.gen(tf.random.normal((BATCH, LATENT)), training=True)
        with tf.GradientTape() as tape:
            gap = tf.reduce_mean(self.critic(fake, training=True)) - tf.reduce_mean(self.critic(real, training=True))
            loss = gap + GP_WEIGHT * self.penalty(real, fake)
        grads = tape.gradient(loss, self.critic.trainable_variables)
        self.c_opt.apply_gradients(zip(grads, self.critic.trainable_variables))
        return -gap

    @tf.function
    def train_step(self, reals):
        distance = 0.0
        for i in range(CRITIC_STEPS):
            distance = self.critic_step(reals[i])
        with tf.GradientTape() as tape:
            fake = self.gen(tf.random.normal((BATCH, LATENT)), training=True)
            loss = -tf.reduce_mean(self.critic(fake, training=True))
        grads = tape.gradient(loss, self.gen.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.gen.trainable_variables))
        return distance, loss


def main():
    keras.utils.set_random_seed(0)
    points = make_spirals(50_000, 1)
    ds = (tf.data.Dataset.from_tensor_slices(points).shuffle(10_000, seed=2).repeat()
          .batch(BATCH).batch(CRITIC_STEPS).prefetch(2))
    wgan = WGAN()
    for step, reals in enumerate(ds.take(STEPS), 1):
        distance, g_loss = wgan.train_step(reals)
        if step % 100 == 0 or step == STEPS:
            print(f"step {step} distance {float(distance):.4f} g_loss {float(g_loss):.4f}", flush=True)

    sample = wgan.gen(tf.random.normal((2000, LATENT))).numpy()
    print(f"sample radius mean {np.hypot(*sample.T).mean():.3f} real {np.hypot(*points.T).mean():.3f}")


if __name__ == "__main__":
    main()
