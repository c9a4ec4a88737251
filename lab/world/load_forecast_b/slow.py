"""Day-ahead electricity load forecast with a temporal convolution network."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

PAST = 96
AHEAD = 24
CHANNELS = 6
BATCH = 64
STEPS = 600


def make_series(hours=24 * 300, seed=8):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    temp = 12 - 10 * np.cos(2 * np.pi * t / 8760) + 5 * np.sin(2 * np.pi * t / 24)
    temp += np.cumsum(rng.normal(0, 0.2, hours)) * 0.2
    weekday = ((t // 24) % 7 < 5).astype(float)
    load = 50 + 12 * weekday * np.sin(np.pi * (t % 24) / 24) + 0.4 * np.abs(temp - 18)
    load += rng.normal(0, 1.0, hours)
    table = np.stack([load, temp, weekday, np.sin(2 * np.pi * t / 24),
                      np.cos(2 * np.pi * t / 24), rng.normal(size=hours)], 1)
    return ((table - table.mean(0)) / table.std(0)).astype("float32")


def split(window):
    return window[..., :PAST, :], window[..., PAST:, 0]


def windows(table):
    ds = tf.data.Dataset.from_tensor_slices(table)
    ds = ds.window(PAST + AHEAD, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(PAST + AHEAD))
    return ds.map(split).batch(BATCH, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)


def build_model():
    inp = keras.Input((PAST, CHANNELS))
    x = layers.Conv1D(24, 3, padding="causal", activation="relu")(inp)
    for rate in (2, 4, 8):
        y = layers.Conv1D(24, 3, padding="causal", dilation_rate=rate, activation="relu")(x)
        y = layers.Conv1D(24, 1)(y)
        x = layers.Add()([x, y])
    x = layers.Flatten()(x[:, -8:])
    return keras.Model(inp, layers.Dense(AHEAD)(x))


class Progress(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.step, self.start = 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % 50 == 0:
            print(f"step {self.step:4d} loss {logs['loss']:.4f} "
                  f"time {time.time() - self.start:.2f}s", flush=True)


def backtest(model, table):
    starts = np.arange(0, len(table) - PAST - AHEAD, 24)
    cuts = np.stack([table[s:s + PAST + AHEAD] for s in starts])
    pred = model.predict(cuts[:, :PAST], verbose=0)
    return float(np.abs(pred - cuts[:, PAST:, 0]).mean())


def main():
    keras.utils.set_random_seed(8)
    table = make_series()
    cut = int(0.85 * len(table))
    train = windows(table[:cut])
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="huber")
    model.fit(train, steps_per_epoch=STEPS, epochs=1, verbose=0, callbacks=[Progress()])
    print("backtest mae", round(backtest(model, table[cut:]), 4))


if __name__ == "__main__":
    main()
