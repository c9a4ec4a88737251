"""Part-of-speech style tagger: bidirectional GRU written with tf.scan (TF1).

$ python slow.py --profile-dir /tmp/tagger   # where the chrome timeline goes
"""
import argparse
import json
import os
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

VOCAB, TAGS, MAXLEN = 3000, 12, 28


def toy_corpus(n, seed=0):
    """Hidden Markov sentences: tag -> tag, tag -> word."""
    rng = np.random.RandomState(seed)
    trans = rng.dirichlet(np.ones(TAGS) * 0.3, TAGS)
    words_of = [rng.choice(VOCAB, 200, replace=False) for _ in range(TAGS)]
    tags = np.zeros((n, MAXLEN), np.int32)
    words = np.zeros((n, MAXLEN), np.int32)
    state = rng.randint(0, TAGS, n)
    for t in range(MAXLEN):
        cum = trans[state].cumsum(1)
        state = np.minimum((rng.rand(n, 1) > cum).sum(1), TAGS - 1)
        tags[:, t] = state
        words[:, t] = [words_of[s][rng.randint(200)] for s in state]
    return words, tags


class GRULayer:
    def __init__(self, n_in, n_hidden, name, seed):
        self.n_hidden = n_hidden
        with tf.variable_scope(name):
            init = tf.glorot_uniform_initializer(seed=seed)
            self.wx = tf.get_variable("wx", [n_in, 3 * n_hidden], initializer=init)
            self.wg = tf.get_variable("wg", [n_hidden, 2 * n_hidden], initializer=init)
            self.wc = tf.get_variable("wc", [n_hidden, n_hidden], initializer=init)
            self.b = tf.get_variable("b", [3 * n_hidden], initializer=tf.zeros_initializer())

    def step(self, h, x):
        xr, xz, xc = tf.split(x, 3, axis=1)
        hr, hz = tf.split(tf.matmul(h, self.wg), 2, axis=1)
        r, z = tf.sigmoid(xr + hr), tf.sigmoid(xz + hz)
        c = tf.tanh(xc + tf.matmul(r * h, self.wc))
        return z * h + (1 - z) * c

    def __call__(self, x_tbd):
        """x_tbd: time-major (T, B, D)."""
        proj = tf.tensordot(x_tbd, self.wx, 1) + self.b
        h0 = tf.zeros([tf.shape(x_tbd)[1], self.n_hidden])
        return tf.scan(self.step, proj, initializer=h0)


class Tagger:
    def __init__(self, emb=48, hidden=64, lr=2e-3):
        self.words = tf.placeholder(tf.int32, [None, MAXLEN])
        self.tags = tf.placeholder(tf.int32, [None, MAXLEN])
        table = tf.get_variable("emb", [VOCAB, emb], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=4))
        x = tf.transpose(tf.nn.embedding_lookup(table, self.words), [1, 0, 2])
        fw = GRULayer(emb, hidden, "fw", 1)(x)
        bw = tf.reverse(GRULayer(emb, hidden, "bw", 2)(tf.reverse(x, [0])), [0])
        h = tf.transpose(tf.concat([fw, bw], -1), [1, 0, 2])
        w = tf.get_variable("out", [2 * hidden, TAGS], initializer=tf.glorot_uniform_initializer(seed=3))
        logits = tf.tensordot(h, w, 1)
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.tags, logits=logits))
        opt = tf.train.AdamOptimizer(lr)
        grads, tvars = zip(*opt.compute_gradients(self.loss))
        grads, _ = tf.clip_by_global_norm(grads, 5.0)
        self.train_op = opt.apply_gradients(zip(grads, tvars))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--profile-dir", default=tempfile.mkdtemp(prefix="tagger_"))
    args = parser.parse_args()

    words, tags = toy_corpus(1200)
    model = Tagger()
    rng = np.random.RandomState(7)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        run_options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        run_metadata = tf.RunMetadata()
        begin = time.time()
        for step in range(1, args.steps + 1):
            idx = rng.randint(0, len(words), args.batch)
            feed = {model.words: words[idx], model.tags: tags[idx]}
            _, loss = sess.run([model.train_op, model.loss], feed, options=run_options, run_metadata=run_metadata)
            if step % 5 == 0:
                print("step %d, loss = %.4f (%.1f sec)" % (step, loss, time.time() - begin))
        # keep one step for chrome://tracing
        trace = timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format()
        with open(os.path.join(args.profile_dir, "timeline.json"), "w") as f:
            f.write(trace)
        print("timeline events:", len(json.loads(trace)["traceEvents"]))


if __name__ == "__main__":
    main()
