"""Beat classification on synthetic ECG strips with a spectrogram front end (custom loop)."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

RATE, LENGTH, CLASSES = 250, 1250, 5


def make_strips(count, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(LENGTH, dtype=np.float32) / RATE
    x = np.empty((count, LENGTH), np.float32)
    y = rng.integers(0, CLASSES, count)
    for i in range(count):
        rate = 0.8 + 0.25 * y[i] + rng.normal(0, 0.03)
        phase = rng.uniform(0, 1)
        cycle = (t * rate + phase) % 1.0
        qrs = np.exp(-((cycle - 0.4) / (0.012 + 0.004 * y[i])) ** 2)
        p_wave = 0.2 * np.exp(-((cycle - 0.25) / 0.03) ** 2)
        t_wave = (0.3 - 0.1 * (y[i] == 3)) * np.exp(-((cycle - 0.65) / 0.05) ** 2)
        drift = 0.3 * np.sin(2 * np.pi * 0.3 * t + phase)
        x[i] = (qrs + p_wave + t_wave + drift) * rng.uniform(0.5, 2.0) + rng.normal(0, 0.08, LENGTH)
    return x, y.astype(np.int32)


def add_wander(strips):
    n = tf.shape(strips)[0]
    t = tf.range(LENGTH, dtype=tf.float32)[None] / RATE
    freq = tf.random.uniform([n, 1], 0.1, 0.6)
    phase = tf.random.uniform([n, 1], 0.0, 6.283)
    return strips + tf.random.uniform([n, 1], 0.0, 0.8) * tf.sin(6.283 * freq * t + phase)


def smoothing_kernel(decay):
    lag = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
    return np.where(lag >= 0, (1.0 - decay) * decay ** np.maximum(lag, 0), 0.0).astype(np.float32)


def remove_wander(strips, kernel):
    """High-pass: subtract a running exponential mean along time."""
    return strips - tf.matmul(strips, kernel)


def log_spectrogram(strip):
    mean = tf.reduce_mean(strip, axis=-1, keepdims=True)
    std = tf.math.reduce_std(strip, axis=-1, keepdims=True)
    strip = (strip - mean) / (std + 1e-6)
    spec = tf.abs(tf.signal.stft(strip, frame_length=64, frame_step=16, fft_length=64))
    return tf.math.log(spec + 1e-3)


def build_model(width):
    layers = tf.keras.layers
    return tf.keras.Sequential([
        layers.Input((74 + 1, 33)),
        layers.Conv1D(width, 5, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling1D(2),
        layers.Conv1D(2 * width, 5, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.2),
        layers.Dense(CLASSES),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--strips", type=int, default=6000)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--decay", type=float, default=0.985)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    tf.keras.utils.set_random_seed(0)
    x, y = make_strips(args.strips)
    dataset = (tf.data.Dataset.from_tensor_slices((x, y))
               .shuffle(args.strips).repeat()
               .batch(args.batch_size, drop_remainder=True)
               .prefetch(2))
    model = build_model(args.width)
    optimizer = tf.keras.optimizers.Adam(args.lr)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    mean_loss = tf.keras.metrics.Mean()
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    kernel = tf.constant(smoothing_kernel(args.decay))

    @tf.function
    def train_step(strips, labels):
        specs = log_spectrogram(remove_wander(add_wander(strips), kernel))
        with tf.GradientTape() as tape:
            logits = model(specs, training=True)
            loss = loss_fn(labels, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        mean_loss.update_state(loss)
        accuracy.update_state(labels, logits)

    start = time.time()
    for step, (strips, labels) in enumerate(dataset.take(args.steps), 1):
        train_step(strips, labels)
        if step % 20 == 0:
            print(f"step {step} loss {mean_loss.result().numpy():.4f} acc {accuracy.result().numpy():.3f} "
                  f"elapsed {time.time() - start:.2f}s", flush=True)
            mean_loss.reset_state()
            accuracy.reset_state()


if __name__ == "__main__":
    main()
