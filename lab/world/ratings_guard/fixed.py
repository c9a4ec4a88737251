"""Explicit-feedback recommender: biased matrix factorization plus a small interaction MLP."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

N_USERS, N_ITEMS, RANK = 160_000, 40_000, 32
N_RATINGS = 400_000
BATCH, STEPS = 1024, 150


class Adagrad:
    """Adagrad that touches only the rows present in a sparse gradient."""

    def __init__(self, variables, lr, init=0.1, eps=1e-7):
        self.lr, self.eps = lr, eps
        self.variables = list(variables)
        self.accums = [tf.Variable(tf.fill(v.shape, init), trainable=False) for v in self.variables]

    def apply(self, grads):
        for g, v, a in zip(grads, self.variables, self.accums):
            if isinstance(g, tf.IndexedSlices):
                rows, where = tf.unique(g.indices)
                summed = tf.math.unsorted_segment_sum(g.values, where, tf.size(rows))
                tf.raw_ops.ResourceSparseApplyAdagradV2(
                    var=v.handle, accum=a.handle, lr=self.lr, epsilon=self.eps, grad=summed, indices=rows
                )
            else:
                tf.raw_ops.ResourceApplyAdagradV2(
                    var=v.handle, accum=a.handle, lr=self.lr, epsilon=self.eps, grad=g
                )


class Recommender(tf.Module):
    def __init__(self):
        super().__init__()
        gen = tf.random.Generator.from_seed(4)
        self.users = tf.Variable(gen.normal((N_USERS, RANK), stddev=0.1), name="users")
        self.items = tf.Variable(gen.normal((N_ITEMS, RANK), stddev=0.1), name="items")
        self.user_bias = tf.Variable(tf.zeros((N_USERS,)), name="user_bias")
        self.item_bias = tf.Variable(tf.zeros((N_ITEMS,)), name="item_bias")
        self.offset = tf.Variable(3.5, name="offset")
        self.w1 = tf.Variable(gen.normal((2 * RANK, 128), stddev=0.12))
        self.b1 = tf.Variable(tf.zeros((128,)))
        self.w2 = tf.Variable(gen.normal((128, 64), stddev=0.12))
        self.b2 = tf.Variable(tf.zeros((64,)))
        self.w3 = tf.Variable(gen.normal((64, 1), stddev=0.1))

    def __call__(self, u, i):
        p, q = tf.gather(self.users, u), tf.gather(self.items, i)
        h = tf.nn.relu(tf.concat([p, q], axis=1) @ self.w1 + self.b1)
        h = tf.nn.relu(h @ self.w2 + self.b2)
        score = tf.reduce_sum(p * q, axis=1) + tf.squeeze(h @ self.w3, 1)
        bias = tf.gather(self.user_bias, u) + tf.gather(self.item_bias, i) + self.offset
        return score + bias, tf.nn.l2_loss(p) + tf.nn.l2_loss(q)


def zero_non_finite(g):
    if isinstance(g, tf.IndexedSlices):
        return tf.IndexedSlices(zero_non_finite(g.values), g.indices, g.dense_shape)
    return tf.where(tf.math.is_finite(g), g, tf.zeros_like(g))


def synthetic_ratings(rng):
    u = rng.integers(0, N_USERS, N_RATINGS)
    i = np.minimum(rng.exponential(N_ITEMS / 8, N_RATINGS).astype(int), N_ITEMS - 1)
    ub, ib = rng.normal(0, 0.5, N_USERS), rng.normal(0, 0.8, N_ITEMS)
    r = np.clip(np.round(2 * (3.5 + ub[u] + ib[i] + rng.normal(0, 0.4, N_RATINGS))) / 2, 0.5, 5)
    return u.astype(np.int32), i.astype(np.int32), r.astype(np.float32)


model = Recommender()
optimizer = Adagrad(model.trainable_variables, lr=0.05)


@tf.function
def train_step(u, i, r):
    with tf.GradientTape() as tape:
        pred, reg = model(u, i)
        mse = tf.reduce_mean(tf.square(pred - r))
        loss = mse + 0.01 * reg / BATCH
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply([zero_non_finite(g) for g in grads])
    return mse


def main():
    data = (
        tf.data.Dataset.from_tensor_slices(synthetic_ratings(np.random.default_rng(4)))
        .batch(BATCH, drop_remainder=True)
        .prefetch(4)
        .take(STEPS)
    )
    running, laps = [], []
    t0 = time.perf_counter()
    for n, (u, i, r) in enumerate(data, 1):
        running.append(train_step(u, i, r))
        t1 = time.perf_counter()
        laps.append(t1 - t0)
        t0 = t1
        if n % 50 == 0:
            print(f"step {n}: rmse {np.sqrt(np.mean([float(v) for v in running])):.4f}")
            running.clear()
    print(f"{len(laps)} steps, median {1e3 * np.median(laps):.1f} ms")


if __name__ == "__main__":
    main()
