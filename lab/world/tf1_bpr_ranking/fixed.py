"""Neural BPR recommender with implicit feedback (TF1 placeholders and sessions)."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class InteractionLog:
    """Implicit feedback drawn from a hidden low-rank preference model."""

    def __init__(self, n_users, n_items, n_events, seed=0):
        rng = np.random.RandomState(seed)
        u = rng.normal(size=(n_users, 8)).astype(np.float32)
        v = rng.normal(size=(n_items, 8)).astype(np.float32)
        users = rng.randint(0, n_users, n_events)
        cand = rng.randint(0, n_items, (n_events, 6))
        score = np.einsum("nd,nkd->nk", u[users], v[cand])
        items = cand[np.arange(n_events), score.argmax(1)]
        cut = int(0.97 * n_events)
        self.train = (users[:cut], items[:cut])
        self.test = (users[cut:], items[cut:])
        self.n_items = n_items
        self.rng = rng

    def sample(self, size):
        pick = self.rng.randint(0, len(self.train[0]), size)
        return (self.train[0][pick], self.train[1][pick],
                self.rng.randint(0, self.n_items, size))


class NeuralBPR:
    def __init__(self, args):
        self.user = tf.placeholder(tf.int32, [None], "user")
        self.pos = tf.placeholder(tf.int32, [None], "pos")
        self.neg = tf.placeholder(tf.int32, [None], "neg")
        init = tf.random_normal_initializer(stddev=0.05)
        self.user_table = tf.get_variable("user_table", [args.users, args.dim], initializer=init)
        self.item_table = tf.get_variable("item_table", [args.items, args.dim], initializer=init)
        self.u = tf.nn.embedding_lookup(self.user_table, self.user)
        self.p = tf.nn.embedding_lookup(self.item_table, self.pos)
        self.n = tf.nn.embedding_lookup(self.item_table, self.neg)
        self._build_tower(args)
        margin = self.score(self.u, self.p) - self.score(self.u, self.n)
        rank_loss = tf.nn.softplus(-margin)
        self.bpr = tf.reduce_mean(rank_loss)
        self.auc = tf.reduce_mean(tf.cast(margin > 0, tf.float32))
        self.l2 = (tf.nn.l2_loss(self.u) + tf.nn.l2_loss(self.p) + tf.nn.l2_loss(self.n))
        self.loss = tf.reduce_sum(rank_loss) + args.l2 * self.l2
        optimizer = tf.train.AdagradOptimizer(args.lr)
        self.train_op = optimizer.minimize(self.loss)

    def _build_tower(self, args):
        sizes = [2 * args.dim] + [int(s) for s in args.layers.split(",")] + [1]
        self.tower = []
        for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
            with tf.variable_scope("layer%d" % i):
                w = tf.get_variable("w", [a, b], initializer=tf.glorot_uniform_initializer())
                c = tf.get_variable("b", [b], initializer=tf.zeros_initializer())
                self.tower.append((w, c))

    def score(self, u, v):
        h = tf.concat([u, v], axis=1)
        for w, c in self.tower[:-1]:
            h = tf.nn.relu(tf.matmul(h, w) + c)
        w, c = self.tower[-1]
        return tf.squeeze(tf.matmul(h, w) + c, 1) + tf.reduce_sum(u * v, axis=1)


def evaluate(sess, model, log):
    users, items = log.test
    negs = np.random.RandomState(1).randint(0, log.n_items, len(users))
    values = []
    for i in range(0, len(users), 2048):
        s = slice(i, i + 2048)
        values.append(sess.run(model.auc, feed_dict={model.user: users[s], model.pos: items[s],
                                                     model.neg: negs[s]}))
    return float(np.mean(values))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=120000)
    p.add_argument("--items", type=int, default=40000)
    p.add_argument("--events", type=int, default=400000)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--layers", default="128,64")
    p.add_argument("--l2", type=float, default=1e-3)
    p.add_argument("--lr", type=float, default=0.2)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--steps", type=int, default=800)
    p.add_argument("--eval-every", type=int, default=200)
    args = p.parse_args()

    np.random.seed(0)
    tf.set_random_seed(0)
    log = InteractionLog(args.users, args.items, args.events)
    model = NeuralBPR(args)
    spent, window = 0.0, []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.get_default_graph().finalize()
        for step in range(1, args.steps + 1):
            tick = time.time()
            user, pos, neg = log.sample(args.batch)
            _, bpr = sess.run([model.train_op, model.bpr],
                              feed_dict={model.user: user, model.pos: pos, model.neg: neg})
            spent += time.time() - tick
            window.append(bpr)
            if step % args.eval_every == 0:
                print("step %d bpr %.4f test auc %.4f" % (
                    step, np.mean(window), evaluate(sess, model, log)))
                window = []
        print("%d steps, %.2f ms/step" % (args.steps, 1000.0 * spent / args.steps))


if __name__ == "__main__":
    main()
