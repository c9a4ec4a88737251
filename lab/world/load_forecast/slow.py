"""Multi-step electricity load forecasting with a small temporal CNN (TF2 custom loop)."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

WINDOW = 48
HORIZON = 24
CHANNELS = 6


def make_series(hours=12000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    phase = rng.uniform(0, 2 * np.pi, CHANNELS)
    day = np.sin(2 * np.pi * t / 24 + phase)
    week = 0.5 * np.sin(2 * np.pi * t / 168 + phase)
    noise = np.cumsum(rng.normal(0, 0.02, (hours, CHANNELS)), axis=0)
    return (day + week + noise + rng.normal(0, 0.1, (hours, CHANNELS))).astype(np.float32)


def make_dataset(series, batch):
    starts = np.arange(0, len(series) - WINDOW - HORIZON)
    table = tf.constant(series)

    def cut(s):
        idx = s[:, None] + tf.range(WINDOW + HORIZON, dtype=s.dtype)
        win = tf.gather(table, idx)
        return win[:, :WINDOW], win[:, WINDOW:, 0]

    ds = tf.data.Dataset.from_tensor_slices(starts).shuffle(len(starts), seed=0).repeat()
    return ds.batch(batch, drop_remainder=True).map(cut, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def build_model(width=24):
    inp = tf.keras.Input((WINDOW, CHANNELS))
    x = inp
    for dilation in (1, 3, 9):
        h = tf.keras.layers.Conv1D(width, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = h if x.shape[-1] != width else tf.keras.layers.Add()([x, h])
    x = tf.keras.layers.Lambda(lambda v: v[:, -1])(x)
    x = tf.keras.layers.Dense(64, activation="relu")(x)
    return tf.keras.Model(inp, tf.keras.layers.Dense(HORIZON)(x))


def augment_one(window):
    """Magnitude warp, drift, jitter, a masked span and channel dropout for one window."""
    # smooth magnitude warp: random values at four knots, linear in between
    knots = tf.random.normal([4, CHANNELS], mean=1.0, stddev=0.15)
    place = tf.linspace(0.0, 3.0, WINDOW)
    left = tf.minimum(tf.cast(place, tf.int32), 2)
    frac = (place - tf.cast(left, tf.float32))[:, None]
    warp = tf.gather(knots, left) * (1.0 - frac) + tf.gather(knots, left + 1) * frac
    # slow drift and white noise
    drift = tf.cumsum(tf.random.normal([WINDOW, CHANNELS], stddev=0.01), axis=0)
    drift = drift - tf.reduce_mean(drift, axis=0, keepdims=True)
    jitter = tf.random.normal([WINDOW, CHANNELS], stddev=0.03)
    # one masked span, some dropped channels
    start = tf.random.uniform([], 0, WINDOW - 12, dtype=tf.int32)
    pos = tf.range(WINDOW)
    keep = tf.cast((pos < start) | (pos >= start + 12), tf.float32)[:, None]
    alive = tf.cast(tf.random.uniform([CHANNELS]) > 0.1, tf.float32)
    return (window * warp + drift + jitter) * keep * alive


def augment(x):
    return tf.map_fn(augment_one, x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    tf.random.set_seed(0)

    series = make_series()
    mean, std = series[:10000].mean(0), series[:10000].std(0)
    series = (series - mean) / std
    model = build_model()
    optimizer = tf.keras.optimizers.Adam(args.lr)

    @tf.function
    def train_step(x, y):
        x = augment(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    start = time.time()
    for step, (x, y) in enumerate(make_dataset(series[:10000], args.batch).take(args.steps), 1):
        loss = train_step(x, y)
        if step % 25 == 0:
            print(f"step {step} mse {float(loss):.4f} ({time.time() - start:.1f}s)", flush=True)

    test_x, test_y = next(iter(make_dataset(series[10000:], 512)))
    print(f"test mse {float(tf.reduce_mean(tf.square(model(test_x) - test_y))):.4f}")


if __name__ == "__main__":
    main()
