"""Collaborative filtering with normalised embeddings and a sampled hinge loss
(UltraGCN / CML like scoring), TensorFlow 1 graph mode."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

flags = dict(n_users=30000, n_items=80000, dim=64, batch_size=384, n_neg=20,
             lr=0.2, margin=0.4, steps=200)


class Interactions:
    """Synthetic implicit feedback: users like items of their own cluster."""

    def __init__(self, n_users, n_items, n_clusters=50, seed=0):
        self.rng = np.random.RandomState(seed)
        self.n_users, self.n_items, self.k = n_users, n_items, n_clusters
        self.user_cluster = self.rng.randint(0, n_clusters, n_users)

    def sample(self, batch, n_neg):
        users = self.rng.randint(0, self.n_users, batch)
        pos = self.rng.randint(0, self.n_items // self.k, batch) * self.k + self.user_cluster[users]
        neg = self.rng.randint(0, self.n_items, (batch, n_neg))
        return users.astype(np.int32), pos.astype(np.int32), neg.astype(np.int32)


class CosineMF:
    def __init__(self, cfg):
        self.user = tf.placeholder(tf.int32, [None], name="user")
        self.pos = tf.placeholder(tf.int32, [None], name="pos")
        self.neg = tf.placeholder(tf.int32, [None, cfg["n_neg"]], name="neg")
        init = tf.random_normal_initializer(stddev=0.1)
        self.user_table = tf.get_variable("user_table", [cfg["n_users"], cfg["dim"]], initializer=init)
        self.item_table = tf.get_variable("item_table", [cfg["n_items"], cfg["dim"]], initializer=init)

        user_emb = tf.nn.l2_normalize(self.user_table, axis=1)
        item_emb = tf.nn.l2_normalize(self.item_table, axis=1)
        u = tf.nn.embedding_lookup(user_emb, self.user)
        p = tf.nn.embedding_lookup(item_emb, self.pos)
        n = tf.nn.embedding_lookup(item_emb, self.neg)

        with tf.name_scope("score"):
            pos_score = tf.reduce_sum(u * p, axis=1, keepdims=True)
            neg_score = tf.squeeze(tf.matmul(n, tf.expand_dims(u, 2)), axis=2)
        with tf.name_scope("loss"):
            hinge = tf.nn.relu(cfg["margin"] - pos_score + neg_score)
            self.loss = tf.reduce_sum(hinge)
        self.auc = tf.reduce_mean(tf.cast(pos_score > neg_score, tf.float32))
        self.train_op = tf.train.AdagradOptimizer(cfg["lr"]).minimize(self.loss)


def main():
    tf.set_random_seed(1)
    data = Interactions(flags["n_users"], flags["n_items"])
    model = CosineMF(flags)
    times = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        last = time.perf_counter()
        for step in range(1, flags["steps"] + 1):
            users, pos, neg = data.sample(flags["batch_size"], flags["n_neg"])
            _, loss, auc = sess.run(
                [model.train_op, model.loss, model.auc],
                feed_dict={model.user: users, model.pos: pos, model.neg: neg})
            now = time.perf_counter()
            times.append(now - last)
            last = now
            if step % 40 == 0:
                print("step %4d  loss %.4f  batch auc %.3f" % (step, loss / len(users), auc))
    print("ms per step: %.2f" % (1e3 * np.median(times[10:])))


if __name__ == "__main__":
    main()
