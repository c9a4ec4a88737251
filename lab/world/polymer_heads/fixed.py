# Multi-task polymer property regression from SMILES-like strings.
# Shared conv + GRU trunk, one small head per property, uncertainty-weighted losses.
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

ALPHABET = "CNOFS()=#c1n2o*"
PROPERTIES = ["glass_temp", "density", "band_gap", "permittivity", "solubility"]
LENGTH, BATCH, STEPS = 64, 48, 140


def random_polymers(n, seed):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(len(ALPHABET)) * 2, size=n)
    lengths = rng.integers(LENGTH // 2, LENGTH + 1, size=n)
    tokens = np.zeros((n, LENGTH), np.int32)
    for i in range(n):
        tokens[i, :lengths[i]] = 1 + rng.choice(len(ALPHABET), size=lengths[i], p=weights[i])
    share = np.stack([(tokens == k + 1).sum(1) for k in range(len(ALPHABET))], 1) / lengths[:, None]
    mix = rng.standard_normal((len(ALPHABET), len(PROPERTIES)))
    targets = np.tanh(3 * share @ mix) + 0.05 * rng.standard_normal((n, len(PROPERTIES)))
    targets = (targets - targets.mean(0)) / targets.std(0)
    return tokens, targets.astype(np.float32)


class PolymerNet(tf.keras.Model):
    def __init__(self, width=64):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(len(ALPHABET) + 1, 32)
        self.convs = [tf.keras.layers.Conv1D(width, k, padding="same", activation="relu") for k in (3, 5)]
        self.pool = tf.keras.layers.MaxPooling1D(2)
        self.gru = tf.keras.layers.GRU(width)
        self.norm = tf.keras.layers.LayerNormalization()
        self.heads = [tf.keras.Sequential([tf.keras.layers.Dense(48, activation="relu"), tf.keras.layers.Dense(1)],
                                          name=name) for name in PROPERTIES]
        self.log_var = self.add_weight(shape=(len(PROPERTIES),), initializer="zeros", name="log_var")

    def call(self, tokens, training=False):
        x = self.embed(tokens)
        for conv in self.convs:
            x = conv(x)
        x = self.norm(self.gru(self.pool(x)))
        return [head(x)[:, 0] for head in self.heads]


class Fitter:
    def __init__(self, model, lr=2e-3, clip=1.0):
        self.model = model
        self.clip = clip
        self.optimizer = tf.keras.optimizers.Adam(lr)
        self.errors = {name: tf.keras.metrics.Mean(name=name) for name in PROPERTIES}

    @tf.function
    def step(self, tokens, targets):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self.model(tokens, training=True)
            losses, mses = [], []
            for k, out in enumerate(outputs):
                mse = tf.reduce_mean(tf.square(out - targets[:, k]))
                s = self.model.log_var[k]
                losses.append(tf.exp(-s) * mse + s)
                mses.append(mse)
            objective = tf.add_n(losses)
        grads = tape.gradient(objective, variables)
        grads, _ = tf.clip_by_global_norm(grads, self.clip)
        self.optimizer.apply_gradients(zip(grads, variables))
        for name, mse in zip(PROPERTIES, mses):
            self.errors[name].update_state(mse)

    def report(self, step):
        line = "  ".join(f"{name} {float(m.result()):.3f}" for name, m in self.errors.items())
        print(f"step {step:4d}  {line}")
        for m in self.errors.values():
            m.reset_state()


def main():
    tf.keras.utils.set_random_seed(31)
    tokens, targets = random_polymers(3000, seed=31)
    data = (tf.data.Dataset.from_tensor_slices((tokens, targets))
            .shuffle(len(tokens), seed=1).repeat().batch(BATCH).take(STEPS).prefetch(tf.data.AUTOTUNE))
    model = PolymerNet()
    model(tokens[:2])
    fitter = Fitter(model)
    stamps = []
    for step, (x, y) in enumerate(data, 1):
        fitter.step(x, y)
        if step % 35 == 0:
            fitter.report(step)
        stamps.append(time.perf_counter())
    print(f"median step {1e3 * np.median(np.diff(stamps)):.1f} ms")


if __name__ == "__main__":
    main()
