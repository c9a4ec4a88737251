"""Customer churn MLP with tf.data + MonitoredTrainingSession-like loop. TF1 API."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

N, D, HIDDEN, BATCH, STEPS = 30000, 60, (512, 512, 256), 512, 900


def make_table(seed=0):
    rng = np.random.RandomState(seed)
    x = rng.randn(N, D).astype(np.float32)
    x[:, 40:] = np.floor(np.abs(x[:, 40:]) * 3)
    w1, w2 = rng.randn(D, 24) / 8, rng.randn(24)
    p = 1 / (1 + np.exp(-np.tanh(x @ w1) @ w2))
    return x, (rng.rand(N) < p).astype(np.float32)


def input_fn(x, y):
    x_ph, y_ph = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.float32, y.shape)
    ds = (
        tf.data.Dataset.from_tensor_slices((x_ph, y_ph))
        .shuffle(N, seed=3)
        .repeat()
        .batch(BATCH)
        .prefetch(2)
    )
    it = tf.data.make_initializable_iterator(ds)
    return it, {x_ph: x, y_ph: y}


def mlp(x, reuse=False, training=True):
    with tf.variable_scope("mlp", reuse=reuse):
        for i, n in enumerate(HIDDEN):
            w = tf.get_variable(
                f"w{i}", [x.shape[1], n], initializer=tf.glorot_uniform_initializer(seed=i)
            )
            b = tf.get_variable(f"b{i}", [n], initializer=tf.zeros_initializer())
            x = tf.nn.relu(tf.matmul(x, w) + b)
            if training:
                x = tf.nn.dropout(x, rate=0.1, seed=20 + i)
        w = tf.get_variable(
            "wo", [x.shape[1], 1], initializer=tf.glorot_uniform_initializer(seed=9)
        )
        return tf.squeeze(tf.matmul(x, w), 1)


def main():
    tf.set_random_seed(5)
    x, y = make_table()
    mu, sd = x[:25000].mean(0), x[:25000].std(0)
    x = (x - mu) / sd
    it, init_feed = input_fn(x[:25000], y[:25000])
    bx, by = it.get_next()
    bx.set_shape([None, D])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=by, logits=mlp(bx)))
    gs = tf.train.get_or_create_global_step()
    lr = tf.train.exponential_decay(1e-3, gs, 300, 0.7)
    train = tf.train.AdamOptimizer(lr).minimize(loss, global_step=gs)

    tx = tf.placeholder(tf.float32, [None, D])
    prob = tf.sigmoid(mlp(tx, reuse=True, training=False))

    conf = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    with tf.Session(config=conf) as sess:
        sess.run([tf.global_variables_initializer()])
        sess.run(it.initializer, init_feed)
        tf.get_default_graph().finalize()
        t0 = time.time()
        for i in range(STEPS):
            if (i + 1) % 100 == 0:
                _, l, r = sess.run([train, loss, lr])
                print(
                    "%d loss %.5f lr %.6f  %.2f ms/step"
                    % (i + 1, l, r, (time.time() - t0) / (i + 1) * 1000),
                    flush=True,
                )
            else:
                sess.run(train)
            if (i + 1) % 300 == 0:
                p = sess.run(prob, {tx: x[25000:]})
                print("   holdout acc %.4f" % ((p > 0.5) == y[25000:]).mean())


main()
