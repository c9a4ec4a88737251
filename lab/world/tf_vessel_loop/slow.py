"""Vessel track forecasting from AIS messages: gated cell with irregular time gaps, custom loop."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import time

import numpy as np
import tensorflow as tf

STEPS = 80
BATCH = 32
LENGTH = 100
FEATURES = 5
UNITS = 128


def simulate_tracks(n, seed):
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, (n, LENGTH + 1)).astype("float32")
    turn = np.cumsum(rng.normal(0, 0.08, (n, LENGTH + 1)), axis=1)
    speed = np.abs(rng.normal(1.0, 0.3, (n, 1))) + 0.1 * rng.standard_normal((n, LENGTH + 1))
    heading = rng.uniform(-np.pi, np.pi, (n, 1)) + turn
    dx = gaps * speed * np.cos(heading)
    dy = gaps * speed * np.sin(heading)
    feats = np.stack([dx, dy, np.cos(heading), np.sin(heading), gaps], -1).astype("float32")
    return feats[:, :-1], gaps[:, 1:], np.stack([dx, dy], -1)[:, 1:].astype("float32")


class DecayGRU(tf.Module):
    """GRU whose state decays with the time between two messages (GRU-D style)."""

    def __init__(self, n_in, units, name=None):
        super().__init__(name)
        init = tf.keras.initializers.GlorotUniform(seed=3)
        self.units = units
        self.w = tf.Variable(init((n_in, 3 * units)), name="w")
        self.u_gates = tf.Variable(init((units, 2 * units)), name="u_gates")
        self.u_cand = tf.Variable(init((units, units)), name="u_cand")
        self.b = tf.Variable(tf.zeros((3 * units,)), name="b")
        self.rate = tf.Variable(tf.fill((units,), 0.1), name="rate")

    def step(self, h, proj, gap):
        h = h * tf.exp(-tf.nn.softplus(self.rate) * gap[:, None])
        z, r, c = tf.split(proj, 3, axis=-1)
        hz, hr = tf.split(h @ self.u_gates, 2, axis=-1)
        z = tf.sigmoid(z + hz)
        r = tf.sigmoid(r + hr)
        c = tf.tanh(c + (r * h) @ self.u_cand)
        return z * h + (1.0 - z) * c

    def __call__(self, x, gaps):
        proj = tf.transpose(tf.tensordot(x, self.w, 1) + self.b, [1, 0, 2])
        gaps = tf.transpose(gaps)
        h = tf.zeros((BATCH, self.units))
        outputs = tf.TensorArray(tf.float32, size=LENGTH, element_shape=(BATCH, self.units))
        for t in tf.range(LENGTH):
            h = self.step(h, proj[t], gaps[t])
            outputs = outputs.write(t, h)
        return tf.transpose(outputs.stack(), [1, 0, 2])


class Forecaster(tf.Module):
    def __init__(self):
        super().__init__()
        self.rnn = DecayGRU(FEATURES, UNITS)
        init = tf.keras.initializers.GlorotUniform(seed=4)
        self.w1 = tf.Variable(init((UNITS + 1, 64)), name="w1")
        self.w2 = tf.Variable(init((64, 4)), name="w2")

    @tf.function
    def loss(self, x, gaps, target):
        h = self.rnn(x, x[..., -1])
        h = tf.ensure_shape(h, (BATCH, LENGTH, UNITS))
        h = tf.concat([h, gaps[..., None]], -1)
        out = tf.tensordot(tf.nn.relu(tf.tensordot(h, self.w1, 1)), self.w2, 1)
        mean, log_sigma = tf.split(out, 2, axis=-1)
        return tf.reduce_mean(log_sigma + 0.5 * tf.square((target - mean) / tf.exp(log_sigma)))


def main():
    tf.random.set_seed(0)
    x, gaps, y = simulate_tracks(1600, seed=0)
    ds = tf.data.Dataset.from_tensor_slices((x, gaps, y)).shuffle(1600, seed=0)
    ds = ds.batch(BATCH, drop_remainder=True).repeat().prefetch(2)

    model = Forecaster()
    variables = model.trainable_variables
    optimizer = tf.keras.optimizers.Adam(3e-3)
    optimizer.build(variables)

    @tf.function
    def train_step(xb, gb, yb):
        with tf.GradientTape() as tape:
            loss = model.loss(xb, gb, yb)
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        optimizer.apply_gradients(zip(grads, variables))
        return loss

    spent = []
    for step, batch in enumerate(ds.take(STEPS)):
        t0 = time.perf_counter()
        loss = train_step(*batch)
        spent.append(time.perf_counter() - t0)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} nll {loss.numpy():.4f}")
    print(f"median ms/step {1e3 * np.median(spent):.1f}")


if __name__ == "__main__":
    main()
