"""Question/answer matching with a small convolutional encoder, TF1 graph mode.

Ported from our 2018 code base (py2 + TF 1.8); runs under TF2 via compat.v1.
"""

import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class Hp:
    vocab_size = 60000
    num_units = 96
    maxlen = 24
    batch_size = 48
    lr = 0.02
    margin = 0.3
    n_steps = 450
    seed = 13


def embedding(inputs, vocab_size, num_units, zero_pad=True, scale=True, scope="embedding", reuse=None):
    """Embeds a tensor of ids.

    zero_pad: if True, id 0 (<PAD>) always maps to the zero vector.
    scale: multiply the outputs by sqrt(num_units).
    """
    with tf.variable_scope(scope, reuse=reuse):
        lookup_table = tf.get_variable("lookup_table", shape=[vocab_size, num_units],
                                       initializer=tf.random_normal_initializer(stddev=0.05, seed=Hp.seed))
        if zero_pad:
            lookup_table = tf.concat((tf.zeros([1, num_units]), lookup_table[1:, :]), 0)
        outputs = tf.nn.embedding_lookup(lookup_table, inputs)
        if scale:
            outputs = outputs * (num_units ** 0.5)
    return outputs


def conv_encoder(x, ids, num_units, scope, reuse=None):
    """Two gated convolutions and a masked max-pool."""
    with tf.variable_scope(scope, reuse=reuse):
        h = x
        for i in range(2):
            w = tf.get_variable("w%d" % i, [3, num_units, 2 * num_units],
                                initializer=tf.glorot_uniform_initializer(seed=Hp.seed + i))
            b = tf.get_variable("b%d" % i, [2 * num_units], initializer=tf.zeros_initializer())
            a, g = tf.split(tf.nn.conv1d(h, w, 1, "SAME") + b, 2, axis=-1)
            h = h + a * tf.sigmoid(g)
        pad = tf.cast(tf.equal(ids, 0), tf.float32)[:, :, None]
        return tf.nn.l2_normalize(tf.reduce_max(h - 1e4 * pad, axis=1), -1)


class QAMatcher:
    def __init__(self, hp):
        self.q = tf.placeholder(tf.int32, [None, hp.maxlen], "question")
        self.pos = tf.placeholder(tf.int32, [None, hp.maxlen], "answer")
        self.neg = tf.placeholder(tf.int32, [None, hp.maxlen], "distractor")
        ids = tf.concat([self.q, self.pos, self.neg], 0)
        emb = embedding(ids, hp.vocab_size, hp.num_units)
        q, pos, neg = tf.split(conv_encoder(emb, ids, hp.num_units, "encoder"), 3)
        s_pos = tf.reduce_sum(q * pos, -1)
        s_neg = tf.reduce_sum(q * neg, -1)
        self.loss = tf.reduce_mean(tf.nn.relu(hp.margin - s_pos + s_neg))
        self.acc = tf.reduce_mean(tf.cast(s_pos > s_neg, tf.float32))
        self.train_op = tf.train.AdagradOptimizer(hp.lr, initial_accumulator_value=1e-3).minimize(self.loss)


def sample_batch(rng, hp):
    """Zipfian ids; question and its answer share a topic block of the vocabulary."""
    def sents(topic):
        ids = np.minimum(rng.zipf(1.3, (hp.batch_size, hp.maxlen)), 1999)
        own = rng.randint(0, 60, (hp.batch_size, hp.maxlen)) + 2000 + 290 * topic[:, None]
        ids = np.where(rng.rand(*ids.shape) < 0.5, own, ids)
        length = rng.randint(8, hp.maxlen + 1, hp.batch_size)
        return np.where(np.arange(hp.maxlen)[None] < length[:, None], ids, 0).astype(np.int32)

    topic = rng.randint(0, 40, hp.batch_size)
    other = (topic + rng.randint(1, 40, hp.batch_size)) % 40
    return sents(topic), sents(topic), sents(other)


def main():
    hp = Hp()
    tf.set_random_seed(hp.seed)
    rng = np.random.RandomState(hp.seed)
    model = QAMatcher(hp)
    n_params = sum(int(np.prod(v.shape)) for v in tf.trainable_variables())
    print("%.1fM parameters" % (n_params / 1e6))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(1, hp.n_steps + 1):
            q, pos, neg = sample_batch(rng, hp)
            _, loss, acc = sess.run([model.train_op, model.loss, model.acc],
                                    feed_dict={model.q: q, model.pos: pos, model.neg: neg})
            if step % 6 == 0:
                print("step %d loss %.5f acc %.3f (%.1fs)" % (step, loss, acc, time.time() - start))


if __name__ == "__main__":
    main()
