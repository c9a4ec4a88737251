"""VQ-VAE over material texture patches, custom TensorFlow 2 training loop."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "350"))
SIZE = 32
BATCH = 32
CODES, DIM = 256, 24
BETA, DECAY = 0.25, 0.99


def make_textures(count=3000, seed=0):
    """Grey patches of wood-, weave- and stone-like textures built in Fourier space."""
    rng = np.random.default_rng(seed)
    fy = np.fft.fftfreq(SIZE)[:, None]
    fx = np.fft.fftfreq(SIZE)[None, :]
    angle = rng.uniform(0, np.pi, (count, 1, 1))
    stretch = rng.uniform(1, 5, (count, 1, 1))
    slope = rng.uniform(1.0, 2.2, (count, 1, 1))
    u = fx * np.cos(angle) + fy * np.sin(angle)
    v = stretch * (-fx * np.sin(angle) + fy * np.cos(angle))
    amplitude = 1.0 / (np.sqrt(u * u + v * v) + 0.02) ** slope
    noise = np.fft.fft2(rng.normal(size=(count, SIZE, SIZE)))
    patch = np.fft.ifft2(noise * amplitude).real
    patch -= patch.mean((1, 2), keepdims=True)
    patch /= patch.std((1, 2), keepdims=True) + 1e-6
    return patch[..., None].astype(np.float32)


def residual(filters):
    inputs = tf.keras.Input((None, None, filters))
    x = tf.keras.layers.ReLU()(inputs)
    x = tf.keras.layers.Conv2D(filters, 3, padding="same")(x)
    x = tf.keras.layers.ReLU()(x)
    x = tf.keras.layers.Conv2D(filters, 1)(x)
    return tf.keras.Model(inputs, tf.keras.layers.Add()([inputs, x]))


def make_encoder(width=32):
    return tf.keras.Sequential([
        tf.keras.Input((SIZE, SIZE, 1)),
        tf.keras.layers.Conv2D(width, 4, 2, "same", activation="relu"),
        tf.keras.layers.Conv2D(width, 4, 2, "same"),
        residual(width), residual(width),
        tf.keras.layers.Conv2D(DIM, 1),
    ])


def make_decoder(width=32):
    return tf.keras.Sequential([
        tf.keras.Input((SIZE // 4, SIZE // 4, DIM)),
        tf.keras.layers.Conv2D(width, 3, padding="same"),
        residual(width),
        tf.keras.layers.Conv2DTranspose(width, 4, 2, "same", activation="relu"),
        tf.keras.layers.Conv2DTranspose(1, 4, 2, "same"),
    ])


class Quantizer(tf.Module):
    """Nearest-code quantisation with exponential moving average updates."""

    def __init__(self):
        super().__init__()
        self.codes = tf.Variable(tf.random.normal([CODES, DIM], stddev=0.3), trainable=False)
        self.counts = tf.Variable(tf.ones([CODES]), trainable=False)
        self.sums = tf.Variable(self.codes, trainable=False)

    def nearest(self, flat):
        distance = tf.reduce_sum(tf.square(flat[:, None, :] - self.codes[None, :, :]), axis=2)
        return tf.argmin(distance, axis=1, output_type=tf.int32)

    def update(self, flat, index):
        hits = tf.math.unsorted_segment_sum(tf.ones_like(index, tf.float32), index, CODES)
        sums = tf.math.unsorted_segment_sum(flat, index, CODES)
        self.counts.assign(DECAY * self.counts + (1 - DECAY) * hits)
        self.sums.assign(DECAY * self.sums + (1 - DECAY) * sums)
        self.codes.assign(self.sums / (self.counts[:, None] + 1e-5))

    def __call__(self, z):
        flat = tf.stop_gradient(tf.reshape(z, [-1, DIM]))
        index = self.nearest(flat)
        quantised = tf.reshape(tf.gather(self.codes, index), tf.shape(z))
        self.update(flat, index)
        commitment = tf.reduce_mean(tf.square(z - tf.stop_gradient(quantised)))
        return z + tf.stop_gradient(quantised - z), commitment, index


def main():
    tf.keras.utils.set_random_seed(0)
    data = (tf.data.Dataset.from_tensor_slices(make_textures())
            .cache().shuffle(3000, seed=0).repeat()
            .batch(BATCH, drop_remainder=True).prefetch(2))
    encoder, decoder, quantizer = make_encoder(), make_decoder(), Quantizer()
    variables = encoder.trainable_variables + decoder.trainable_variables
    optimizer = tf.keras.optimizers.Adam(5e-4)
    optimizer.build(variables)

    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            z = encoder(x, training=True)
            quantised, commitment, index = quantizer(z)
            mse = tf.reduce_mean(tf.square(decoder(quantised, training=True) - x))
            loss = mse + BETA * commitment
        grads = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(grads, variables))
        return mse, commitment, index

    start = time.time()
    for step, x in enumerate(data.take(STEPS), 1):
        mse, commitment, index = train_step(x)
        if step % 50 == 0:
            used = len(np.unique(index.numpy()))
            print(f"step {step:4d}  mse {float(mse):.4f}  commit {float(commitment):.4f}  "
                  f"codes {used}  {(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
