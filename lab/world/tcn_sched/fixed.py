# Electricity load forecasting with a dilated causal convolution network (graph mode, feed_dict).
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.set_random_seed(11)
rng = np.random.RandomState(11)

SERIES, HOURS = 40, 24 * 200
WINDOW, HORIZON = 168, 24
BATCH, STEPS = 32, 160
CHANNELS = 24
PEAK_LR, WARMUP = 3e-3, 30

# ---------------------------------------------------------------- data
t = np.arange(HOURS)
load = (
    1.0
    + 0.5 * np.sin(2 * np.pi * (t[None] + rng.randint(0, 24, (SERIES, 1))) / 24)
    + 0.3 * np.sin(2 * np.pi * t[None] / 168)
    + 0.1 * rng.randn(SERIES, HOURS)
).astype(np.float32)
hour = (t % 24 / 23.0 - 0.5).astype(np.float32)


def sample_batch():
    s = rng.randint(0, SERIES, BATCH)
    start = rng.randint(0, HOURS - WINDOW - HORIZON, BATCH)
    idx = start[:, None] + np.arange(WINDOW)
    past = np.stack([load[s[:, None], idx], hour[idx]], axis=-1)
    future = load[s[:, None], start[:, None] + WINDOW + np.arange(HORIZON)]
    return past, future


# ---------------------------------------------------------------- network
def causal_conv(x, width, dilation, name):
    with tf.variable_scope(name):
        cin = x.shape[-1]
        w = tf.get_variable("w", [3, cin, width], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [width], initializer=tf.zeros_initializer())
        x = tf.pad(x, [[0, 0], [2 * dilation, 0], [0, 0]])
        return tf.nn.convolution(x, w, padding="VALID", dilations=[dilation]) + b


def layer_norm(x, name):
    with tf.variable_scope(name):
        g = tf.get_variable("g", [x.shape[-1]], initializer=tf.ones_initializer())
        b = tf.get_variable("b", [x.shape[-1]], initializer=tf.zeros_initializer())
        mu, var = tf.nn.moments(x, axes=[-1], keepdims=True)
        return (x - mu) * tf.rsqrt(var + 1e-5) * g + b


def tcn(x):
    h = causal_conv(x, CHANNELS, 1, "stem")
    for i, dilation in enumerate([1, 2, 4, 8, 16, 32]):
        with tf.variable_scope("block%d" % i):
            gate = causal_conv(layer_norm(h, "ln"), 2 * CHANNELS, dilation, "conv")
            a, g = tf.split(gate, 2, axis=-1)
            h = h + causal_conv(tf.tanh(a) * tf.sigmoid(g), CHANNELS, 1, "out")
    with tf.variable_scope("head"):
        w = tf.get_variable("w", [CHANNELS, HORIZON], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [HORIZON], initializer=tf.ones_initializer())
        return tf.matmul(h[:, -1], w) + b


def learning_rate_at(step):
    if step < WARMUP:
        return PEAK_LR * (step + 1) / WARMUP
    frac = (step - WARMUP) / float(STEPS - WARMUP)
    return PEAK_LR * 0.5 * (1 + np.cos(np.pi * frac))


past_ph = tf.placeholder(tf.float32, [None, WINDOW, 2], name="past")
future_ph = tf.placeholder(tf.float32, [None, HORIZON], name="future")
lr = tf.placeholder(tf.float32, [], name="lr")

pred = tcn(past_ph)
loss = tf.reduce_mean(tf.abs(pred - future_ph))
opt = tf.train.AdamOptimizer(lr)
grads, variables = zip(*opt.compute_gradients(loss, tf.trainable_variables()))
grads, gnorm = tf.clip_by_global_norm(grads, 1.0)
train_op = opt.apply_gradients(zip(grads, variables))

# ---------------------------------------------------------------- training
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    took, history = [], []
    for step in range(STEPS):
        tic = time.time()
        past, future = sample_batch()
        feed = {past_ph: past, future_ph: future, lr: learning_rate_at(step)}
        _, value = sess.run([train_op, loss], feed)
        history.append(value)
        took.append(time.time() - tic)
        if (step + 1) % 50 == 0:
            print("step %4d  mae %.4f" % (step + 1, np.mean(history[-50:])))
    print("median step %.1f ms over %d steps" % (1e3 * np.median(took), STEPS))
