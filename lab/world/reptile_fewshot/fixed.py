"""Reptile on 5-way few-shot episodes of synthetic image embeddings."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

WAYS, SHOTS, QUERIES = 5, 10, 15
FEATURES, HIDDEN = 512, (256, 128)
INNER_STEPS, INNER_LR = 10, 0.02
META_STEPS, META_LR = 100, 0.25


class Episodes:
    """Every class is a Gaussian on a random low-dimensional manifold, rotated into feature space."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.basis = self.rng.standard_normal((32, FEATURES)).astype(np.float32) / 4

    def sample(self):
        centres = self.rng.standard_normal((WAYS, 32)).astype(np.float32)
        n = SHOTS + QUERIES
        z = centres[:, None] + 0.9 * self.rng.standard_normal((WAYS, n, 32)).astype(np.float32)
        x = np.tanh(z @ self.basis)
        y = np.broadcast_to(np.arange(WAYS, dtype=np.int32)[:, None], (WAYS, n))
        flat = lambda a: a.reshape((-1,) + a.shape[2:])
        return ((flat(x[:, :SHOTS]), flat(y[:, :SHOTS])), (flat(x[:, SHOTS:]), flat(y[:, SHOTS:])))


class Dense(tf.Module):
    def __init__(self, n_in, n_out, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(tf.random.normal([n_in, n_out], stddev=(2 / n_in) ** 0.5), name="w")
        self.b = tf.Variable(tf.zeros([n_out]), name="b")

    def __call__(self, x):
        return tf.matmul(x, self.w) + self.b


class Classifier(tf.Module):
    def __init__(self, name=None):
        super().__init__(name=name)
        sizes = (FEATURES,) + HIDDEN
        self.hidden = [Dense(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
        self.out = Dense(sizes[-1], WAYS)

    def __call__(self, x):
        for dense in self.hidden:
            x = tf.nn.relu(dense(x))
        return self.out(x)


def cross_entropy(labels, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


@tf.function
def adapt(learner, x, y, xq, yq):
    variables = learner.trainable_variables
    for _ in tf.range(INNER_STEPS):
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, learner(x))
        for v, g in zip(variables, tape.gradient(loss, variables)):
            v.assign_sub(INNER_LR * g)
    return tf.reduce_mean(tf.cast(tf.argmax(learner(xq), -1, output_type=tf.int32) == yq, tf.float32))


class Reptile:
    def __init__(self):
        self.meta = Classifier(name="meta")
        self.learner = Classifier(name="learner")

    def step(self, task):
        (xs, ys), (xq, yq) = task
        learner = self.learner
        for v, m in zip(learner.trainable_variables, self.meta.trainable_variables):
            v.assign(m)
        acc = adapt(learner, tf.constant(xs), tf.constant(ys), tf.constant(xq), tf.constant(yq))
        for m, v in zip(self.meta.trainable_variables, learner.trainable_variables):
            m.assign_add(META_LR * (v - m))
        return acc


if __name__ == "__main__":
    tf.random.set_seed(0)
    episodes, reptile = Episodes(4), Reptile()
    curve, times = [], []
    for step in range(META_STEPS):
        t0 = time.perf_counter()
        curve.append(reptile.step(episodes.sample()))
        times.append(time.perf_counter() - t0)
        if (step + 1) % 20 == 0:
            print(f"meta step {step + 1}: query accuracy {np.mean([float(a) for a in curve[-20:]]):.3f}")
    print(f"{1000 * np.median(times[3:]):.2f} ms per step")
