"""Anomaly detection on multichannel sensor windows with an autoencoder (graph mode)."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

CHANNELS, WINDOW = 8, 64


def make_series(length, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(length, dtype=np.float32)
    base = np.stack([np.sin(t / p) for p in (7.0, 11.0, 23.0, 41.0)], axis=1)
    mix = rng.normal(0, 1, size=(4, CHANNELS)).astype(np.float32)
    x = base @ mix + rng.normal(0, 0.15, size=(length, CHANNELS))
    return (x / x.std(0)).astype(np.float32)


def windows(series, starts):
    return np.stack([series[s:s + WINDOW] for s in starts]).reshape(len(starts), -1)


def inject(batch, rng):
    out = batch.copy().reshape(len(batch), WINDOW, CHANNELS)
    for row in out:
        c, s = rng.integers(0, CHANNELS), rng.integers(0, WINDOW - 12)
        row[s:s + 12, c] += rng.choice([-2.5, 2.5])
    return out.reshape(len(batch), -1)


def dense(x, n_out, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[1]), n_out], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [n_out], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return activation(y) if activation else y


def build_graph(hidden, code):
    x = tf.placeholder(tf.float32, [None, WINDOW * CHANNELS], name="x")
    lr = tf.placeholder(tf.float32, [], name="lr")
    h = dense(x, hidden, "enc1", tf.nn.relu)
    h = dense(h, hidden // 2, "enc2", tf.nn.relu)
    z = dense(h, code, "code")
    h = dense(z, hidden // 2, "dec1", tf.nn.relu)
    h = dense(h, hidden, "dec2", tf.nn.relu)
    recon = dense(h, WINDOW * CHANNELS, "out")
    score = tf.reduce_mean(tf.square(recon - x), axis=1)
    loss = tf.reduce_mean(score) + 1e-4 * tf.reduce_mean(tf.square(z))
    opt = tf.train.AdamOptimizer(lr)
    grads_and_vars = opt.compute_gradients(loss)
    grads = [g for g, _ in grads_and_vars]
    clipped, _ = tf.clip_by_global_norm(grads, 5.0)
    train_op = opt.apply_gradients(zip(clipped, [v for _, v in grads_and_vars]))
    return x, lr, score, loss, grads, train_op


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--length", type=int, default=60000)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--code", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    tf.set_random_seed(0)
    rng = np.random.default_rng(1)
    series = make_series(args.length)
    split = int(0.9 * args.length)
    x, lr, score, loss, grads, train_op = build_graph(args.hidden, args.code)
    val = windows(series, rng.integers(split, args.length - WINDOW, 512))
    bad = inject(val, rng)

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        norms = []
        start = time.time()
        for step in range(1, args.steps + 1):
            batch = windows(series, rng.integers(0, split - WINDOW, args.batch_size))
            rate = args.lr * 0.5 * (1 + np.cos(np.pi * step / args.steps))
            _, value, norm = sess.run([train_op, loss, tf.global_norm(grads)], feed_dict={x: batch, lr: rate})
            norms.append(norm)
            if step % 20 == 0:
                print(f"step {step} loss {value:.4f} grad_norm {np.mean(norms[-20:]):.3f} "
                      f"elapsed {time.time() - start:.2f}s", flush=True)
        good_scores = sess.run(score, {x: val})
        bad_scores = sess.run(score, {x: bad})
        limit = np.quantile(good_scores, 0.95)
        print(f"threshold {limit:.4f} detection rate {(bad_scores > limit).mean():.3f}")


if __name__ == "__main__":
    main()
