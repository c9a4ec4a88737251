"""Day-ahead electricity load forecasting with a dilated causal convnet (TF1 graph mode)."""
import math
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

HISTORY = 96
HORIZON = 24
N_SERIES = 60
CHANNELS = 32
BATCH = 64
EPOCHS = 5
STEPS_PER_EPOCH = 120
BASE_LR = 2e-3
WARMUP = 60


def make_series(n, length, seed):
    rng = np.random.RandomState(seed)
    t = np.arange(length)[None, :]
    daily = rng.uniform(0.5, 1.5, (n, 1)) * np.sin(2 * np.pi * t / 24 + rng.uniform(0, 6, (n, 1)))
    weekly = rng.uniform(0.2, 0.6, (n, 1)) * np.sin(2 * np.pi * t / 168 + rng.uniform(0, 6, (n, 1)))
    noise = rng.normal(0, 0.15, (n, length)).cumsum(axis=1) * 0.05
    return (daily + weekly + noise).astype(np.float32)


class WindowSampler:
    def __init__(self, series, seed):
        self.series = series
        self.rng = np.random.RandomState(seed)

    def batch(self, size):
        rows = self.rng.randint(0, self.series.shape[0], size)
        starts = self.rng.randint(0, self.series.shape[1] - HISTORY - HORIZON, size)
        idx = starts[:, None] + np.arange(HISTORY + HORIZON)[None, :]
        win = self.series[rows[:, None], idx]
        return win[:, :HISTORY, None], win[:, HISTORY:]


def causal_conv(x, filters, width, dilation, name):
    with tf.variable_scope(name):
        in_ch = x.shape[-1].value if hasattr(x.shape[-1], "value") else int(x.shape[-1])
        w = tf.get_variable("w", [width, in_ch, filters],
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [filters], initializer=tf.zeros_initializer())
        pad = (width - 1) * dilation
        x = tf.pad(x, [[0, 0], [pad, 0], [0, 0]])
        return tf.nn.conv1d(x, w, stride=1, padding="VALID", dilations=dilation) + b


def build_model(x, y):
    h = tf.nn.relu(causal_conv(x, CHANNELS, 3, 1, "stem"))
    for i, d in enumerate([2, 4, 8]):
        z = tf.nn.relu(causal_conv(h, CHANNELS, 3, d, "block%d" % i))
        h = h + z
    last = h[:, -1, :]
    w = tf.get_variable("out_w", [CHANNELS, HORIZON], initializer=tf.glorot_uniform_initializer())
    b = tf.get_variable("out_b", [HORIZON], initializer=tf.zeros_initializer())
    pred = tf.matmul(last, w) + b
    loss = tf.reduce_mean(tf.square(pred - y))
    mae = tf.reduce_mean(tf.abs(pred - y))
    return pred, loss, mae


def learning_rate_at(step, total):
    if step < WARMUP:
        return BASE_LR * (step + 1) / WARMUP
    frac = (step - WARMUP) / float(max(1, total - WARMUP))
    return 0.5 * BASE_LR * (1.0 + math.cos(math.pi * frac))


def main():
    np.random.seed(1)
    tf.set_random_seed(1)
    series = make_series(N_SERIES, 3000, seed=0)
    train, valid = WindowSampler(series[:50], 1), WindowSampler(series[50:], 2)

    x = tf.placeholder(tf.float32, [None, HISTORY, 1], name="history")
    y = tf.placeholder(tf.float32, [None, HORIZON], name="future")
    lr = tf.get_variable("learning_rate", [], initializer=tf.constant_initializer(BASE_LR),
                         trainable=False)
    new_lr = tf.placeholder(tf.float32, [], name="new_lr")
    set_lr = lr.assign(new_lr)
    _, loss, mae = build_model(x, y)
    optimizer = tf.train.AdamOptimizer(lr)
    grads, tvars = zip(*optimizer.compute_gradients(loss, tf.trainable_variables()))
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    train_op = optimizer.apply_gradients(zip(grads, tvars))

    total = EPOCHS * STEPS_PER_EPOCH
    step = 0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for epoch in range(EPOCHS):
            losses = []
            for _ in range(STEPS_PER_EPOCH):
                sess.run(set_lr, feed_dict={new_lr: learning_rate_at(step, total)})
                bx, by = train.batch(BATCH)
                value, _ = sess.run([loss, train_op], feed_dict={x: bx, y: by})
                losses.append(value)
                step += 1
            vx, vy = valid.batch(256)
            v_mae = sess.run(mae, feed_dict={x: vx, y: vy})
            print("epoch %d  train mse %.4f  valid mae %.4f" % (epoch, np.mean(losses), v_mae))
        elapsed = time.time() - start
        print("%d steps, %.2f ms/step" % (step, 1000.0 * elapsed / step))


if __name__ == "__main__":
    main()
