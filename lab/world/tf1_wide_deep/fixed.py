"""Wide & deep click model, session style (ported from an old TF 1.12 script)."""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

N_CAT, BUCKETS, N_NUM = 12, 2000, 16


def make_clicks(n, seed=0):
    rng = np.random.RandomState(seed)
    cats = rng.zipf(1.3, (n, N_CAT)) % BUCKETS
    nums = rng.randn(n, N_NUM).astype(np.float32)
    bias = rng.randn(N_CAT, BUCKETS) * 0.7
    logit = sum(bias[j][cats[:, j]] for j in range(N_CAT)) * 0.5
    logit = logit + nums[:, 0] * nums[:, 1] + 0.5 * nums[:, 2]
    click = (rng.rand(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return cats.astype(np.int32), nums, click


class WideDeep:
    def __init__(self, hidden, dim=16):
        self.cats = tf.placeholder(tf.int32, [None, N_CAT], name="cats")
        self.nums = tf.placeholder(tf.float32, [None, N_NUM], name="nums")
        self.click = tf.placeholder(tf.float32, [None], name="click")

        flat = self.cats + BUCKETS * tf.constant(np.arange(N_CAT), tf.int32)
        wide_w = tf.get_variable("wide", [N_CAT * BUCKETS], initializer=tf.zeros_initializer())
        table = tf.get_variable(
            "table", [N_CAT * BUCKETS, dim], initializer=tf.random_normal_initializer(stddev=0.05)
        )
        wide = tf.reduce_sum(tf.gather(wide_w, flat), axis=1)
        h = tf.reshape(tf.gather(table, flat), [-1, N_CAT * dim])
        h = tf.concat([h, self.nums], axis=1)
        width = N_CAT * dim + N_NUM
        for k, n in enumerate(hidden):
            w = tf.get_variable("w%d" % k, [width, n], initializer=tf.glorot_uniform_initializer())
            b = tf.get_variable("b%d" % k, [n], initializer=tf.zeros_initializer())
            h = tf.nn.relu(tf.matmul(h, w) + b)
            width = n
            if k == 0:
                self.w_in = w
        w = tf.get_variable("w_out", [width, 1], initializer=tf.glorot_uniform_initializer())
        self.logit = wide + tf.squeeze(tf.matmul(h, w), 1)
        self.loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=self.click, logits=self.logit)
        )
        self.lr = tf.get_variable(
            "lr", [], initializer=tf.constant_initializer(0.01), trainable=False
        )
        self.train_op = tf.train.AdagradOptimizer(self.lr).minimize(self.loss)


def main(argv):
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--batch", type=int, default=1280)
    p.add_argument("--max-norm", type=float, default=12.0)
    p.add_argument("--decay", type=float, default=0.995)
    args = p.parse_args(argv)

    tf.set_random_seed(3)
    cats, nums, click = make_clicks(100000)
    rng = np.random.RandomState(1)
    model = WideDeep([512, 256, 128])

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        new_lr = tf.placeholder(tf.float32, [])
        set_lr = tf.assign(model.lr, new_lr)
        clip = model.w_in.assign(tf.clip_by_norm(model.w_in, args.max_norm))
        lr = 0.05
        for step in range(1, args.steps + 1):
            idx = rng.randint(0, len(click), args.batch)
            feed = {model.cats: cats[idx], model.nums: nums[idx], model.click: click[idx]}
            lr = lr * args.decay
            sess.run(set_lr, feed_dict={new_lr: lr})
            _, loss = sess.run([model.train_op, model.loss], feed_dict=feed)
            sess.run(clip)
            if step % 20 == 0:
                print("step %d lr %.4f loss %.5f" % (step, lr, loss))


if __name__ == "__main__":
    main(sys.argv[1:])
