"""beta-VAE on glyph images, TF2 custom training loop with KL warm-up."""
import time

import numpy as np
import tensorflow as tf

SIDE, LATENT, BATCH, EPOCHS = 32, 16, 64, 14
BETA_MAX, WARMUP_STEPS = 0.8, 150


def glyphs(n, seed=0):
    """Random strokes: two line segments and an arc, drawn with soft edges."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIDE, :SIDE].astype(np.float32) / (SIDE - 1)
    out = np.zeros((n, SIDE, SIDE, 1), np.float32)
    for i in range(n):
        img = np.zeros((SIDE, SIDE), np.float32)
        for _ in range(2):
            (y0, x0), (y1, x1) = rng.uniform(0.1, 0.9, (2, 2))
            t = np.clip(((yy - y0) * (y1 - y0) + (xx - x0) * (x1 - x0)) / ((y1 - y0) ** 2 + (x1 - x0) ** 2 + 1e-6), 0, 1)
            d = np.hypot(yy - y0 - t * (y1 - y0), xx - x0 - t * (x1 - x0))
            img = np.maximum(img, np.exp(-(d / 0.04) ** 2))
        cy, cx = rng.uniform(0.3, 0.7, 2)
        ring = np.abs(np.hypot(yy - cy, xx - cx) - rng.uniform(0.1, 0.25))
        out[i, ..., 0] = np.maximum(img, np.exp(-(ring / 0.04) ** 2))
    return out


class VAE(tf.keras.Model):
    def __init__(self):
        super().__init__()
        conv, deconv, dense = tf.keras.layers.Conv2D, tf.keras.layers.Conv2DTranspose, tf.keras.layers.Dense
        self.encoder = tf.keras.Sequential([
            conv(24, 4, 2, "same", activation="relu"), conv(48, 4, 2, "same", activation="relu"),
            tf.keras.layers.Flatten(), dense(128, activation="relu"), dense(2 * LATENT)])
        self.decoder = tf.keras.Sequential([
            dense(128, activation="relu"), dense(8 * 8 * 48, activation="relu"),
            tf.keras.layers.Reshape((8, 8, 48)),
            deconv(24, 4, 2, "same", activation="relu"), deconv(1, 4, 2, "same")])

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=-1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = tf.keras.optimizers.Adam(1e-3)
        self.step = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def train_step(self, x):
        beta = BETA_MAX * tf.minimum(1.0, tf.cast(self.step, tf.float32) / WARMUP_STEPS)
        with tf.GradientTape() as tape:
            logits, mean, logvar = self.model(x)
            bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)
            recon = tf.reduce_mean(tf.reduce_sum(bce, [1, 2, 3]))
            kl = tf.reduce_mean(-0.5 * tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), -1))
            loss = recon + beta * kl
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.step.assign_add(1)
        return loss, recon, kl


def main():
    tf.keras.utils.set_random_seed(5)
    images = glyphs(3200)
    ds = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images)).batch(BATCH, drop_remainder=True).prefetch(2)
    model = VAE()
    model(images[:1])  # build the variables
    trainer = Trainer(model)
    n, start = 0, time.time()
    for epoch in range(EPOCHS):
        for x in ds:
            loss, recon, kl = trainer.train_step(x)
            n += 1
            if n % 10 == 0:
                print(f"epoch {epoch} step {n} loss {float(loss):.3f} recon {float(recon):.2f} kl {float(kl):.2f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
