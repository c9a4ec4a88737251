"""Recurrent classifier of pen gestures recorded as point sequences."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

POINTS = 40
CLASSES = 6
UNITS = 64
BATCH = 48
STEPS = 500


def make_gestures(n, rng):
    t = np.linspace(0, 2 * np.pi, POINTS)[None]
    label = rng.randint(0, CLASSES, n)
    a = 1 + label % 3
    b = 1 + label // 3 * 2
    phase = rng.uniform(0, 0.8, (n, 1))
    x = np.sin(a[:, None] * t + phase)
    y = np.cos(b[:, None] * t)
    xy = np.stack([x, y], 2) + rng.normal(0, 0.25, (n, POINTS, 2))
    vel = np.diff(xy, axis=1, prepend=xy[:, :1])
    return np.concatenate([xy, vel], 2).astype(np.float32), label.astype(np.int32)


class GatedCell:
    def __init__(self, inputs, units):
        init = tf.glorot_uniform_initializer()
        self.w = tf.get_variable("w", [inputs + units, 2 * units], initializer=init)
        self.b = tf.get_variable("b", [2 * units], initializer=tf.ones_initializer())
        self.wc = tf.get_variable("wc", [inputs + units, units], initializer=init)
        self.bc = tf.get_variable("bc", [units], initializer=tf.zeros_initializer())

    def __call__(self, x, h):
        gates = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), self.w) + self.b)
        reset, keep = tf.split(gates, 2, axis=1)
        cand = tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), self.wc) + self.bc)
        return keep * h + (1 - keep) * cand


def encode(points):
    with tf.variable_scope("encoder"):
        cell = GatedCell(4, UNITS)
    h = tf.zeros([tf.shape(points)[0], UNITS])
    for x in tf.unstack(points, axis=1):
        h = cell(x, h)
    return h


class Trainer:
    def __init__(self):
        tf.set_random_seed(21)
        self.points = tf.placeholder(tf.float32, [None, POINTS, 4])
        self.labels = tf.placeholder(tf.int32, [None])
        logits = self._dense(encode(self.points))
        self.loss = tf.losses.sparse_softmax_cross_entropy(self.labels, logits)
        guess = tf.argmax(logits, 1, output_type=tf.int32)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(guess, self.labels), tf.float32))
        opt = tf.train.AdamOptimizer(2e-3)
        grads, variables = zip(*opt.compute_gradients(self.loss))
        grads, self.norm = tf.clip_by_global_norm(grads, 1.0)
        self.train = opt.apply_gradients(zip(grads, variables))
        self.sess = tf.Session()
        self.sess.run(tf.global_variables_initializer())
        self.options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self.metadata = tf.RunMetadata()

    @staticmethod
    def _dense(h):
        w = tf.get_variable("out_w", [UNITS, CLASSES], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("out_b", [CLASSES], initializer=tf.zeros_initializer())
        return tf.matmul(h, w) + b

    def step(self, x, y):
        loss, norm, _ = self.sess.run([self.loss, self.norm, self.train],
                                      {self.points: x, self.labels: y},
                                      options=self.options, run_metadata=self.metadata)
        return loss, norm

    def evaluate(self, x, y):
        return self.sess.run(self.accuracy, {self.points: x, self.labels: y})


def main():
    rng = np.random.RandomState(21)
    x, y = make_gestures(3000, rng)
    test = make_gestures(200, rng)
    trainer = Trainer()
    start = time.time()
    for step in range(1, STEPS + 1):
        pick = rng.randint(0, len(x), BATCH)
        loss, norm = trainer.step(x[pick], y[pick])
        if step % 50 == 0:
            print("step %4d loss %.4f norm %.2f test %.3f time %.2fs"
                  % (step, loss, norm, trainer.evaluate(*test), time.time() - start), flush=True)


if __name__ == "__main__":
    main()
