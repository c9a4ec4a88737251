"""Implicit-feedback recommender (neural BPR) in graph mode, tf.compat.v1 sessions."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

flags = dict(
    n_users=200000,
    n_items=120000,
    dim=32,
    batch_size=1024,
    n_steps=240,
    learning_rate=0.05,
    log_every=50,
)


class Interactions(object):
    """Users have a taste group, items are drawn from that group with a long tail."""

    def __init__(self, n_users, n_items, n_events=400000, groups=40, seed=0):
        self.rng = np.random.RandomState(seed)
        self.n_items = n_items
        per = n_items // groups
        self.users = self.rng.randint(0, n_users, n_events).astype(np.int32)
        rank = np.minimum(self.rng.zipf(1.3, n_events), per) - 1
        self.items = ((self.users % groups) * per + rank).astype(np.int32)

    def batch(self, size):
        idx = self.rng.randint(0, len(self.users), size)
        neg = self.rng.randint(0, self.n_items, size).astype(np.int32)
        return self.users[idx], self.items[idx], neg


class NeuralBPR(object):
    def __init__(self, n_users, n_items, dim, learning_rate):
        self.user = tf.placeholder(tf.int32, [None], "user")
        self.pos = tf.placeholder(tf.int32, [None], "pos")
        self.neg = tf.placeholder(tf.int32, [None], "neg")
        with tf.variable_scope("embeddings"):
            init = tf.random_normal_initializer(stddev=0.05, seed=1)
            self.user_table = tf.get_variable("users", [n_users, dim], initializer=init)
            self.item_table = tf.get_variable("items", [n_items, dim], initializer=init)
        u = tf.nn.embedding_lookup(self.user_table, self.user)
        p = tf.nn.embedding_lookup(self.item_table, self.pos)
        n = tf.nn.embedding_lookup(self.item_table, self.neg)
        self.pos_score = self.score(u, p)
        self.neg_score = self.score(u, n)
        rank_loss = tf.reduce_mean(tf.nn.softplus(self.neg_score - self.pos_score))
        l2 = tf.nn.l2_loss(u) + tf.nn.l2_loss(p) + tf.nn.l2_loss(n)
        self.loss = rank_loss + 1e-5 * l2
        self.auc = tf.reduce_mean(tf.cast(self.pos_score > self.neg_score, tf.float32))
        self.train_op = self.build_train_op(learning_rate)

    def score(self, u, i):
        with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
            h = tf.concat([u, i, u * i], axis=1)
            for k, units in enumerate([128, 64]):
                w = tf.get_variable("w%d" % k, [h.shape[1], units], initializer=tf.glorot_uniform_initializer(seed=k))
                b = tf.get_variable("b%d" % k, [units], initializer=tf.zeros_initializer())
                h = tf.nn.relu(tf.matmul(h, w) + b)
            out = tf.get_variable("out", [64, 1], initializer=tf.glorot_uniform_initializer(seed=9))
            return tf.squeeze(tf.matmul(h, out), 1) + tf.reduce_sum(u * i, axis=1)

    def build_train_op(self, learning_rate):
        optimizer = tf.train.AdagradOptimizer(learning_rate)
        grads_and_vars = optimizer.compute_gradients(self.loss)
        cleaned = []
        for grad, var in grads_and_vars:
            # a bad batch once poisoned the tables with NaNs
            if isinstance(grad, tf.IndexedSlices):
                values = tf.where(tf.is_finite(grad.values), grad.values, tf.zeros_like(grad.values))
                grad = tf.IndexedSlices(values, grad.indices, grad.dense_shape)
            else:
                grad = tf.where(tf.is_finite(grad), grad, tf.zeros_like(grad))
            cleaned.append((grad, var))
        return optimizer.apply_gradients(cleaned)


def main():
    np.random.seed(0)
    tf.set_random_seed(0)
    data = Interactions(flags["n_users"], flags["n_items"])
    model = NeuralBPR(flags["n_users"], flags["n_items"], flags["dim"], flags["learning_rate"])
    durations = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(1, flags["n_steps"] + 1):
            t0 = time.time()
            u, p, n = data.batch(flags["batch_size"])
            _, loss, auc = sess.run(
                [model.train_op, model.loss, model.auc],
                feed_dict={model.user: u, model.pos: p, model.neg: n},
            )
            durations.append(time.time() - t0)
            if step % flags["log_every"] == 0:
                print("step %d  loss %.4f  pairwise auc %.3f" % (step, loss, auc))
    print("median ms/step %.1f" % (1000 * np.median(durations)))


if __name__ == "__main__":
    main()
