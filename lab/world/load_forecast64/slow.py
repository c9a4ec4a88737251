"""Day-ahead electricity load forecasting with a dilated CNN (Keras).

Two weeks of hourly load + weather in, 24 hours of load out.
"""
import time

import keras
import numpy as np
from keras import layers

# silences "casting an input tensor from dtype float64 to the layer's dtype of
# float32" -- the message itself says to do this
keras.backend.set_floatx("float64")

HISTORY = 24 * 14
HORIZON = 24
FEATURES = 6
FILTERS = 48
BATCH = 24


@keras.saving.register_keras_serializable()
class NumpyGlorot(keras.initializers.Initializer):
    """Glorot uniform drawn with numpy, so that weights match our R/torch reimplementation."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, shape, dtype=None):
        fan_in = np.prod(shape[:-1])
        fan_out = shape[-1] * np.prod(shape[:-2])
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        w = np.random.RandomState(self.seed).uniform(-limit, limit, shape)
        return keras.ops.convert_to_tensor(w.astype(dtype or keras.backend.floatx()))

    def get_config(self):
        return {"seed": self.seed}


def synthetic_region(days, seed=0):
    rng = np.random.default_rng(seed)
    h = np.arange(days * 24)
    temp = 12 + 9 * np.sin(2 * np.pi * h / 8766) + 4 * np.sin(2 * np.pi * h / 24 - 2) + rng.normal(0, 1, h.size)
    weekend = ((h // 24) % 7 >= 5).astype(float)
    load = 50 + 12 * np.sin(2 * np.pi * h / 24 - 1.2) - 6 * weekend + 0.08 * (temp - 16) ** 2 + rng.normal(0, 1, h.size)
    cols = [load, temp, np.sin(2 * np.pi * h / 24), np.cos(2 * np.pi * h / 24), weekend, np.gradient(temp)]
    x = np.stack(cols, -1)
    return (x - x.mean(0)) / x.std(0)


def windows(series):
    starts = np.arange(0, len(series) - HISTORY - HORIZON, 7)
    x = np.stack([series[s:s + HISTORY] for s in starts])
    y = np.stack([series[s + HISTORY:s + HISTORY + HORIZON, 0] for s in starts])
    return x, y


def build_model():
    inp = keras.Input((HISTORY, FEATURES))
    x = layers.Conv1D(FILTERS, 1, kernel_initializer=NumpyGlorot(1))(inp)
    for i, d in enumerate((1, 2, 4, 8, 16, 32)):
        y = layers.Conv1D(FILTERS, 3, dilation_rate=d, padding="causal", activation="relu",
                          kernel_initializer=NumpyGlorot(10 + i))(x)
        y = layers.Conv1D(FILTERS, 1, kernel_initializer=NumpyGlorot(30 + i))(y)
        x = layers.Add()([x, y])
    x = layers.Lambda(lambda t: t[:, -HORIZON:, :])(x)
    x = layers.Flatten()(x)
    x = layers.Dense(256, activation="relu", kernel_initializer=NumpyGlorot(50))(x)
    return keras.Model(inp, layers.Dense(HORIZON, kernel_initializer=NumpyGlorot(51))(x))


class StepLogger(keras.callbacks.Callback):
    def __init__(self, every):
        super().__init__()
        self.every = every
        self.seen = 0

    def on_train_begin(self, logs=None):
        self.t0 = time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every == 0:
            print(f"step {self.seen} loss {logs['loss']:.5f} {time.time() - self.t0:.1f}s")


def main():
    keras.utils.set_random_seed(2)
    x, y = windows(synthetic_region(500))
    split = int(0.9 * len(x))
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    model.fit(x[:split], y[:split], batch_size=BATCH, epochs=3, shuffle=False, verbose=0, callbacks=[StepLogger(4)])
    print("validation mse:", model.evaluate(x[split:], y[split:], batch_size=64, verbose=0))


if __name__ == "__main__":
    main()
