"""Bayesian personalised ranking with a two-tower network, TensorFlow 1 graph mode."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

N_USERS, N_ITEMS, N_TAGS = 5000, 4000, 64
DIM, BATCH, STEPS = 64, 1024, 1000
HIDDEN = (256, 128)


def interactions(n, seed=0):
    """Users like items near them in a latent space."""
    rng = np.random.RandomState(seed)
    taste = rng.normal(size=(N_USERS, 8))
    items = rng.normal(size=(N_ITEMS, 8))
    users = rng.randint(0, N_USERS, n)
    cand = rng.randint(0, N_ITEMS, (n, 8))
    score = np.einsum("nd,nkd->nk", taste[users], items[cand])
    pos = cand[np.arange(n), score.argmax(1)]
    tags = (items @ rng.normal(size=(8, N_TAGS)) > 1.0).astype(np.float32)
    return users.astype(np.int32), pos.astype(np.int32), tags


def tower(x, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        for i, units in enumerate(HIDDEN):
            w = tf.get_variable("w%d" % i, [int(x.shape[-1]), units], initializer=tf.glorot_uniform_initializer(seed=i))
            b = tf.get_variable("b%d" % i, [units], initializer=tf.zeros_initializer())
            x = tf.nn.relu(tf.matmul(x, w) + b)
        w = tf.get_variable("proj", [HIDDEN[-1], DIM], initializer=tf.glorot_uniform_initializer(seed=9))
        return tf.matmul(x, w)


class TwoTower:
    def __init__(self, users, pos, neg, tags):
        init = tf.random_normal_initializer(stddev=0.1, seed=3)
        user_table = tf.get_variable("users", [N_USERS, DIM], initializer=init)
        item_table = tf.get_variable("items", [N_ITEMS, DIM], initializer=init)
        tag_const = tf.constant(tags)

        def item_vec(ids):
            feats = tf.concat([tf.nn.embedding_lookup(item_table, ids), tf.gather(tag_const, ids)], -1)
            return tower(feats, "item")

        u = tower(tf.nn.embedding_lookup(user_table, users), "user")
        margin = tf.reduce_sum(u * (item_vec(pos) - item_vec(neg)), -1)
        self.loss = tf.reduce_mean(tf.nn.softplus(-margin))
        self.auc = tf.reduce_mean(tf.cast(margin > 0, tf.float32))
        self.global_step = tf.train.get_or_create_global_step()
        opt = tf.train.AdagradOptimizer(0.1)
        self.train_op = opt.minimize(self.loss, global_step=self.global_step)


def input_pipeline(users, pos):
    """Positive pairs drawn with replacement, negatives uniform; all inside the graph."""
    users, pos = tf.constant(users), tf.constant(pos)
    rows = tf.random.uniform([BATCH], 0, int(users.shape[0]), tf.int32, seed=4)
    neg = tf.random.uniform([BATCH], 0, N_ITEMS, tf.int32, seed=5)
    return tf.gather(users, rows), tf.gather(pos, rows), neg


def main():
    tf.set_random_seed(1)
    users, pos, tags = interactions(60000)
    model = TwoTower(*input_pipeline(users, pos), tags)
    init = tf.global_variables_initializer()
    tf.get_default_graph().finalize()
    with tf.Session() as sess:
        sess.run(init)
        start = time.time()
        for step in range(1, STEPS + 1):
            if step % 20:
                sess.run(model.train_op)
            else:
                _, loss, auc = sess.run([model.train_op, model.loss, model.auc])
                print("step %d loss %.4f auc %.3f (%.1fs)" % (step, loss, auc, time.time() - start))


if __name__ == "__main__":
    main()
