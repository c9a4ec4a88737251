"""Store demand forecasting with a dilated causal conv net, trained by Keras fit."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

STORES, DAYS, PAST, FUTURE, FEATURES = 40, 1000, 112, 14, 4
BATCH, STEPS, LR, SEED = 64, 400, 1e-3, 19


def make_windows():
    rng = np.random.default_rng(SEED)
    t = np.arange(DAYS)
    sales = []
    for _ in range(STORES):
        season = np.sin(2 * np.pi * (t / 7 + rng.random())) + 0.5 * np.sin(2 * np.pi * (t / 365 + rng.random()))
        promo = (rng.random(DAYS) < 0.1).astype(float)
        trend = np.cumsum(rng.normal(0, 0.02, DAYS))
        y = season + 0.8 * promo + trend + rng.normal(0, 0.2, DAYS)
        y = (y - y.mean()) / y.std()
        sales.append(np.stack([y, promo, np.sin(2 * np.pi * t / 7), np.cos(2 * np.pi * t / 7)], axis=1))
    series = np.stack(sales).astype(np.float32)
    view = np.lib.stride_tricks.sliding_window_view(series, PAST + FUTURE, axis=1)[:, ::3]
    view = view.reshape(-1, FEATURES, PAST + FUTURE)
    x = np.ascontiguousarray(view[:, :, :PAST].transpose(0, 2, 1))
    y = np.ascontiguousarray(view[:, 0, PAST:])
    return x, y


def build_net():
    inputs = keras.Input((PAST, FEATURES))
    x = keras.layers.Conv1D(48, 1)(inputs)
    for dilation in (1, 2, 4, 8):
        y = keras.layers.Conv1D(48, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        y = keras.layers.Conv1D(48, 1)(y)
        x = keras.layers.Add()([x, y])
    x = keras.layers.Concatenate()([x[:, -1], keras.layers.GlobalAveragePooling1D()(x)])
    x = keras.layers.Dense(96, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(FUTURE)(x))


class Report(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.start = time.time()

    def on_epoch_end(self, epoch, logs=None):
        done = (epoch + 1) * self.params["steps"]
        print(f"step {done:4d} loss {logs['loss']:.4f} time {time.time() - self.start:.1f}s", flush=True)


def main():
    keras.utils.set_random_seed(SEED)
    x, y = make_windows()
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = x[order], y[order]
    n_val = len(x) // 10
    ds = tf.data.Dataset.from_tensor_slices((x[n_val:], y[n_val:]))
    ds = ds.shuffle(4096, seed=SEED).batch(BATCH, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)
    model = build_net()
    model.compile(optimizer=keras.optimizers.Adam(LR), loss="huber")
    model.fit(ds, epochs=STEPS // 40, steps_per_epoch=40, verbose=0, callbacks=[Report()])
    score = model.evaluate(x[:n_val], y[:n_val], batch_size=512, verbose=0)
    print(f"validation loss {score:.4f}")


if __name__ == "__main__":
    main()
