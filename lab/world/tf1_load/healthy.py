"""TF1-style session: forecast of electric load from the last 48 hours."""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

PAST, AHEAD, FEATURES = 48, 12, 6
BATCH, STEPS = 256, 120


def load_series(hours=20000, seed=0):
    rng = np.random.default_rng(seed)
    h = np.arange(hours)
    temp = 10 + 8 * np.sin(2 * np.pi * h / 8760) + 4 * np.sin(2 * np.pi * h / 24)
    temp += np.cumsum(rng.normal(0, 0.1, hours)) * 0.1
    work = ((h // 24) % 7 < 5).astype(float)
    load = 50 + 12 * work * np.sin(np.pi * (h % 24) / 24) + 0.05 * (temp - 15) ** 2
    load += rng.normal(0, 1.0, hours)
    cols = [
        load,
        temp,
        work,
        np.sin(2 * np.pi * h / 24),
        np.cos(2 * np.pi * h / 24),
        rng.normal(0, 1, hours),
    ]
    x = np.stack(cols, 1)
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32)


def cut(series):
    """All windows once, as contiguous float32, so that a batch is a plain take()."""
    n = len(series) - PAST - AHEAD
    rows = np.arange(n)[:, None]
    past = series[rows + np.arange(PAST)].reshape(n, PAST * FEATURES)
    future = series[rows + PAST + np.arange(AHEAD), 0]
    return np.ascontiguousarray(past), np.ascontiguousarray(future)


def dense(x, size, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w", [x.shape[-1], size], initializer=tf.variance_scaling_initializer(2.0)
        )
        b = tf.get_variable("b", [size], initializer=tf.zeros_initializer())
        y = tf.nn.bias_add(tf.matmul(x, w), b)
        return activation(y) if activation else y


def build_graph():
    past = tf.placeholder(tf.float32, [None, PAST * FEATURES], "past")
    future = tf.placeholder(tf.float32, [None, AHEAD], "future")
    step = tf.train.get_or_create_global_step()
    h = past
    for i, size in enumerate([384, 384, 256]):
        h = dense(h, size, "layer%d" % i, tf.nn.relu)
    pred = dense(h, AHEAD, "head")
    loss = tf.reduce_mean(tf.square(pred - future))
    mae = tf.reduce_mean(tf.abs(pred - future))
    rate = tf.train.exponential_decay(0.02, step, 50, 0.7)
    opt = tf.train.MomentumOptimizer(rate, 0.9)
    pairs = opt.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 5.0)
    train = opt.apply_gradients(zip(clipped, [v for _, v in pairs]), global_step=step)
    return dict(past=past, future=future, loss=loss, mae=mae, train=train)


def main():
    tf.set_random_seed(0)
    rng = np.random.default_rng(1)
    past, future = cut(load_series())
    split = int(0.9 * len(past))
    g = build_graph()
    init = tf.global_variables_initializer()
    spans = []
    with tf.Session() as sess:
        sess.run(init)
        tf.get_default_graph().finalize()
        for step in range(STEPS):
            start = time.perf_counter()
            pick = rng.integers(0, split, BATCH)
            feed = {g["past"]: past[pick], g["future"]: future[pick]}
            _, loss = sess.run([g["train"], g["loss"]], feed)
            spans.append(time.perf_counter() - start)
            if step % 20 == 0:
                print("step %3d  mse %.4f" % (step, loss))
        mae = sess.run(g["mae"], {g["past"]: past[split:], g["future"]: future[split:]})
    print("validation mae %.4f" % mae)
    print("median step %.2f ms" % (1e3 * np.median(spans[10:])))


if __name__ == "__main__":
    main()
