"""TransE embeddings of a synthetic knowledge graph, TensorFlow 1 graph and session.

Entities lie in a hidden space, relations are translations in it; the graph's triples are the
nearest tails. Margin ranking loss with corrupted heads or tails, entity vectors on the unit
sphere as in the paper. Mean rank of the true tail is reported.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

ENTITIES = 4000
RELATIONS = 16
DIM = 100
BATCH = 8192
STEPS = 260
MARGIN = 0.5


def make_triples(rng):
    points = rng.normal(size=(ENTITIES, 8))
    shifts = rng.normal(size=(RELATIONS, 8))
    triples = []
    for relation in range(RELATIONS):
        heads = rng.choice(ENTITIES, size=1500, replace=False)
        target = points[heads] + shifts[relation]
        square = (target**2).sum(1)[:, None] + (points**2).sum(1)[None]
        tails = (square - 2 * target @ points.T).argmin(1)
        triples.append(np.stack([heads, np.full(1500, relation), tails], axis=1))
    triples = np.concatenate(triples).astype(np.int32)
    return triples[rng.permutation(len(triples))]


def corrupt(batch, rng):
    """Replaces the head or the tail of every triple by a random entity."""
    fake = batch.copy()
    side = np.where(rng.random(len(batch)) < 0.5, 0, 2)
    fake[np.arange(len(batch)), side] = rng.integers(0, ENTITIES, len(batch))
    return fake


class TransE:
    def __init__(self):
        self.true = tf.placeholder(tf.int32, [None, 3], name="true")
        self.fake = tf.placeholder(tf.int32, [None, 3], name="fake")
        bound = 6.0 / np.sqrt(DIM)
        init = tf.random_uniform_initializer(-bound, bound, seed=3)
        self.entity = tf.get_variable("entity", [ENTITIES, DIM], initializer=init)
        self.relation = tf.get_variable("relation", [RELATIONS, DIM], initializer=init)
        gap = MARGIN + self.distance(self.true) - self.distance(self.fake)
        self.loss = tf.reduce_mean(tf.nn.relu(gap))
        self.train_op = tf.train.AdamOptimizer(2e-3).minimize(self.loss)

        query = tf.nn.embedding_lookup(self.entity, self.true[:, 0])
        query += tf.nn.embedding_lookup(self.relation, self.true[:, 1])
        product = tf.matmul(query, self.entity, transpose_b=True)
        scores = 2.0 * product - tf.reduce_sum(self.entity**2, 1)
        own = tf.gather(scores, self.true[:, 2], axis=1, batch_dims=1)
        above = tf.cast(scores > own[:, None], tf.float32)
        self.mean_rank = 1.0 + tf.reduce_mean(tf.reduce_sum(above, 1))

    def distance(self, triples):
        head = tf.nn.embedding_lookup(self.entity, triples[:, 0])
        relation = tf.nn.embedding_lookup(self.relation, triples[:, 1])
        tail = tf.nn.embedding_lookup(self.entity, triples[:, 2])
        return tf.reduce_sum(tf.square(head + relation - tail), axis=1)

    def normalize_entities(self, sess):
        sess.run(tf.assign(self.entity, tf.nn.l2_normalize(self.entity, axis=1)))


def train(sess, model, triples, valid, rng):
    times = []
    losses = []
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        batch = triples[rng.integers(0, len(triples), BATCH)]
        feed = {model.true: batch, model.fake: corrupt(batch, rng)}
        _, loss = sess.run([model.train_op, model.loss], feed)
        model.normalize_entities(sess)
        times.append(time.perf_counter() - start)
        losses.append(loss)
        if step % 65 == 0:
            rank = sess.run(model.mean_rank, {model.true: valid})
            print(f"step {step:4d}  loss {np.mean(losses[-65:]):.4f}  mean rank {rank:.1f}")
    return times


def main():
    rng = np.random.default_rng(0)
    triples = make_triples(rng)
    valid, triples = triples[:500], triples[500:]
    tf.set_random_seed(0)
    model = TransE()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        model.normalize_entities(sess)
        times = train(sess, model, triples, valid, rng)

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
