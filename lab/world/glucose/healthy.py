"""Probabilistic glucose forecasting from CGM, insulin and meals (TF2 custom loop)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "350"))
PAST, AHEAD, CHANNELS = 96, 12, 4        # 8 hours seen, 1 hour predicted, every 5 minutes
QUANTILES = np.array([0.1, 0.5, 0.9], np.float32)
BATCH = 192


def make_patients(patients=40, days=20, seed=0):
    """A crude minimal model: meals raise, insulin lowers, with a circadian base."""
    rng = np.random.default_rng(seed)
    length = days * 288
    t = np.arange(length)
    meal = np.zeros((patients, length))
    for hour in (7, 12, 19):
        at = (np.arange(days) * 288 + hour * 12)[None] + rng.integers(-12, 12, (patients, days))
        np.put_along_axis(meal, np.clip(at, 0, length - 1), rng.gamma(6, 8, at.shape), 1)
    insulin = np.roll(meal, 2, 1) * rng.uniform(0.06, 0.12, (patients, 1)) + 0.05
    rise = np.exp(-np.arange(60) / 12) * np.arange(60) / 12
    fall = np.exp(-np.arange(90) / 20) * np.arange(90) / 20
    glucose = np.empty((patients, length))
    for p in range(patients):
        up = np.convolve(meal[p], rise)[:length]
        down = np.convolve(insulin[p], fall)[:length]
        glucose[p] = 110 + 1.6 * up - 9 * down
    glucose += 8 * np.sin(2 * np.pi * t / 288) + rng.normal(0, 3, glucose.shape)
    clock = np.broadcast_to(np.sin(2 * np.pi * t / 288), glucose.shape)
    series = np.stack([(glucose - 120) / 40, meal / 50, insulin / 3, clock], -1)
    return series.astype(np.float32)


class Block(tf.keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-5)
        self.up = tf.keras.layers.Dense(2 * width, activation="relu")
        self.down = tf.keras.layers.Dense(width)

    def call(self, x):
        return x + self.down(self.up(self.norm(x)))


def build_model(width=384, depth=4):
    return tf.keras.Sequential([
        tf.keras.Input((PAST * CHANNELS,)),
        tf.keras.layers.Dense(width),
        *[Block(width) for _ in range(depth)],
        tf.keras.layers.Dense(AHEAD * len(QUANTILES)),
    ])


def pinball(target, predicted):
    error = target[:, :, None] - predicted
    return tf.reduce_mean(tf.maximum(QUANTILES * error, (QUANTILES - 1) * error))


def batches(series, seed=1):
    """An endless stream of random windows, a batch at a time."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(PAST + AHEAD)
    patients, length, _ = series.shape
    while True:
        who = rng.integers(patients, size=(BATCH, 1))
        begin = rng.integers(length - PAST - AHEAD, size=(BATCH, 1))
        window = series[who, begin + offsets]
        yield window[:, :PAST].reshape(BATCH, -1), window[:, PAST:, 0]


def main():
    tf.keras.utils.set_random_seed(0)
    series = make_patients()
    signature = (tf.TensorSpec((BATCH, PAST * CHANNELS)), tf.TensorSpec((BATCH, AHEAD)))
    data = tf.data.Dataset.from_generator(lambda: batches(series), output_signature=signature)
    data = data.take(STEPS).prefetch(4)
    model = build_model()
    variables = model.trainable_variables
    optimizer = tf.keras.optimizers.Adam(5e-4)
    optimizer.build(variables)

    @tf.function(input_signature=signature)
    def train_step(past, future):
        with tf.GradientTape() as tape:
            predicted = tf.reshape(model(past, training=True), [BATCH, AHEAD, len(QUANTILES)])
            loss = pinball(future, predicted)
        grads, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        optimizer.apply_gradients(zip(grads, variables))
        return loss

    start = time.time()
    for step, (past, future) in enumerate(data, 1):
        loss = train_step(past, future)
        if step % 50 == 0:
            print(f"step {step:4d}  pinball {float(loss):.4f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
