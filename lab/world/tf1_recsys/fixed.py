"""Old TF1 recommender (session code), two towers, sampled items with side features."""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)

N_USERS, N_ITEMS, N_SIDE = 400, 60000, 72
DIM, NEG, BATCH, STEPS = 32, 7, 192, 120


class Catalogue:
    """Item descriptions: price, age, category indicators and so on."""

    def __init__(self, rng):
        price = np.exp(rng.normal(3, 1, (N_ITEMS, 1)))
        age = rng.uniform(0, 365, (N_ITEMS, 1))
        cats = rng.random((N_ITEMS, N_SIDE - 2)) < 0.06
        raw = np.concatenate([np.log(price), age / 365.0, cats], axis=1)
        self.side = (raw - raw.mean(0)) / (raw.std(0) + 1e-6)
        self.taste = rng.normal(0, 1, (N_SIDE, 8)) / np.sqrt(N_SIDE)


class Interactions:
    def __init__(self, catalogue, rng):
        self.rng = rng
        profile = rng.normal(0, 1, (N_USERS, 8))
        self.users = rng.integers(0, N_USERS, 40000).astype(np.int32)
        cand = rng.integers(0, N_ITEMS, (40000, 6))
        score = np.einsum("nkd,nd->nk", catalogue.side[cand] @ catalogue.taste, profile[self.users])
        self.items = cand[np.arange(40000), score.argmax(1)].astype(np.int32)

    def draw(self):
        i = self.rng.integers(0, len(self.users), BATCH)
        neg = self.rng.integers(0, N_ITEMS, (BATCH, NEG), dtype=np.int32)
        return self.users[i], np.concatenate([self.items[i][:, None], neg], 1)


class TwoTower:
    def __init__(self, catalogue):
        self.catalogue = catalogue
        self.users = tf.placeholder(tf.int32, [None], "users")
        self.items = tf.placeholder(tf.int32, [None, NEG + 1], "items")
        self.rate = tf.placeholder(tf.float32, [], "rate")
        self.side_init = tf.placeholder(tf.float32, [N_ITEMS, N_SIDE], "side_init")
        self.side = tf.Variable(self.side_init, trainable=False, name="side")
        u = self._user_tower()
        v = self._item_tower()
        logits = tf.einsum("bd,bkd->bk", u, v)
        labels = tf.zeros_like(self.users)
        self.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        hit = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
        self.hit_rate = tf.reduce_mean(tf.cast(hit, tf.float32))
        self.train_op = tf.train.AdagradOptimizer(self.rate).minimize(self.loss)

    def _weights(self, name, shape):
        return tf.get_variable(name, shape, initializer=tf.glorot_uniform_initializer())

    def _user_tower(self):
        table = tf.get_variable(
            "user_emb", [N_USERS, DIM], initializer=tf.random_normal_initializer(stddev=0.1)
        )
        return tf.nn.embedding_lookup(table, self.users)

    def _item_tower(self):
        x = tf.gather(self.side, self.items)
        x = tf.reshape(x, [-1, N_SIDE])
        for i, (a, b) in enumerate([(N_SIDE, 192), (192, 192), (192, DIM)]):
            x = tf.matmul(x, self._weights("w%d" % i, [a, b]))
            x = x + tf.get_variable("b%d" % i, [b], initializer=tf.zeros_initializer())
            if b != DIM:
                x = tf.nn.relu(x)
        return tf.reshape(x, [-1, NEG + 1, DIM])

    def feed(self, users, items, step):
        return {
            self.users: users,
            self.items: items,
            self.rate: 0.1 / (1.0 + 0.002 * step),
        }

    def train_on(self, sess, users, items, step):
        feed = self.feed(users, items, step)
        return sess.run([self.train_op, self.loss, self.hit_rate], feed)[1:]


def run():
    rng = np.random.default_rng(7)
    tf.set_random_seed(7)
    catalogue = Catalogue(rng)
    data = Interactions(catalogue, rng)
    model = TwoTower(catalogue)
    clock = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer(), {model.side_init: catalogue.side})
        for step in range(STEPS):
            t = time.perf_counter()
            users, items = data.draw()
            loss, hit = model.train_on(sess, users, items, step)
            clock.append(time.perf_counter() - t)
            if step % 20 == 0:
                print("step %d  loss %.4f  hit@1 %.3f" % (step, loss, hit))
    print("median step %.2f ms" % (1e3 * np.median(clock[10:])))


if __name__ == "__main__":
    run()
