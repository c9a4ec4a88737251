# Sentence classification with a CNN over pretrained word vectors (Kim, 2014), TensorFlow 1 style.
import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

ap = argparse.ArgumentParser()
ap.add_argument("--vocab", type=int, default=120000)
ap.add_argument("--dim", type=int, default=100)
ap.add_argument("--sent-len", type=int, default=32)
ap.add_argument("--filters", type=int, default=100)
ap.add_argument("--widths", default="3,4,5")
ap.add_argument("--classes", type=int, default=6)
ap.add_argument("--batch", type=int, default=50)
ap.add_argument("--steps", type=int, default=320)
ap.add_argument("--eval-every", type=int, default=80)
args = ap.parse_args()

rng = np.random.default_rng(17)
tf.set_random_seed(17)
work = tempfile.mkdtemp(prefix="trec_")

# ---------------------------------------------------------------- corpus and vectors
topic_of_word = rng.integers(0, args.classes, args.vocab)
np.save(os.path.join(work, "glove.npy"),
        0.35 * rng.normal(size=(args.vocab, args.dim))
        + 0.06 * rng.normal(size=(args.classes, args.dim))[topic_of_word])


def sentences(n):
    y = rng.integers(0, args.classes, n)
    x = np.minimum(rng.zipf(1.15, (n, args.sent_len)), args.vocab - 1).astype(np.int32)
    fits = np.array([np.flatnonzero(topic_of_word == c)[:2000] for c in range(args.classes)])
    use = rng.random((n, args.sent_len)) < 0.25
    x[use] = fits[np.repeat(y, args.sent_len).reshape(n, -1)[use], rng.integers(0, 2000, use.sum())]
    lengths = rng.integers(args.sent_len // 2, args.sent_len + 1, n)
    x[np.arange(args.sent_len) >= lengths[:, None]] = 0
    return x, y.astype(np.int32)


x_train, y_train = sentences(6000)
x_dev, y_dev = sentences(500)
vectors = np.load(os.path.join(work, "glove.npy"))
vectors[0] = 0.0

# ---------------------------------------------------------------- graph
word_ids = tf.placeholder(tf.int32, [None, args.sent_len], name="word_ids")
target = tf.placeholder(tf.int32, [None], name="target")
keep = tf.placeholder_with_default(1.0, [], name="keep")
emb = tf.placeholder(tf.float32, vectors.shape, name="glove")

words = tf.nn.embedding_lookup(emb, word_ids)
pooled = []
for width in map(int, args.widths.split(",")):
    with tf.variable_scope(f"conv{width}"):
        kernel = tf.get_variable("kernel", [width, args.dim, args.filters],
                                 initializer=tf.truncated_normal_initializer(stddev=0.1))
        bias = tf.get_variable("bias", [args.filters], initializer=tf.constant_initializer(0.1))
        feature = tf.nn.relu(tf.nn.conv1d(words, kernel, 1, "VALID") + bias)
        pooled.append(tf.reduce_max(feature, axis=1))
hidden = tf.nn.dropout(tf.concat(pooled, 1), rate=1.0 - keep)
w_out = tf.get_variable("w_out", [hidden.shape[1], args.classes], initializer=tf.glorot_uniform_initializer())
b_out = tf.get_variable("b_out", [args.classes], initializer=tf.zeros_initializer())
logits = tf.nn.xw_plus_b(hidden, w_out, b_out)

xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
loss = xent + 1e-3 * tf.nn.l2_loss(w_out)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), target), tf.float32))
global_step = tf.train.get_or_create_global_step()
train_op = tf.train.AdamOptimizer(1e-3).minimize(loss, global_step=global_step)

tf.summary.scalar("loss", loss)
tf.summary.scalar("accuracy", accuracy)
summaries = tf.summary.merge_all()

# ---------------------------------------------------------------- training
times = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    writer = tf.summary.FileWriter(os.path.join(work, "logs"), sess.graph)
    order, at = rng.permutation(len(x_train)), 0
    for step in range(1, args.steps + 1):
        if at + args.batch > len(order):
            order, at = rng.permutation(len(x_train)), 0
        rows = order[at:at + args.batch]
        at += args.batch
        x, y = x_train[rows], y_train[rows]
        began = time.perf_counter()
        feed = {word_ids: x, target: y, emb: vectors, keep: 0.5}
        if step % 20:
            sess.run(train_op, feed)
        else:
            _, text = sess.run([train_op, summaries], feed)
            writer.add_summary(text, step)
        times.append(time.perf_counter() - began)
        if step % args.eval_every == 0:
            feed = {word_ids: x_dev, target: y_dev, emb: vectors, keep: 1.0}
            dev_loss, dev_acc = sess.run([loss, accuracy], feed)
            print(f"step {step}: dev loss {dev_loss:.4f} accuracy {dev_acc:.3f}", flush=True)
    writer.close()
print(f"median step {1e3 * np.median(times):.1f} ms")
