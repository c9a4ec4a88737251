"""Credit default model on tabular data: embeddings plus MLP, graph-mode TensorFlow 1 API."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "400"))
ROWS = 40_000
NUMERIC = 24
CARDINALITY = (50, 12, 200, 8)
BATCH = 512


def make_loans(seed=0):
    rng = np.random.default_rng(seed)
    num = rng.normal(size=(ROWS, NUMERIC)).astype(np.float32)
    num[:, 3] = np.exp(0.5 * num[:, 3])
    num[:, 7] = np.abs(num[:, 7])
    cat = np.stack([rng.integers(0, c, ROWS) for c in CARDINALITY], axis=1).astype(np.int32)
    effects = [rng.normal(0, 0.7, c) for c in CARDINALITY]
    score = 0.9 * num[:, 0] - 1.1 * num[:, 1] * num[:, 2] + 0.6 * num[:, 3] - num[:, 7]
    score += sum(e[cat[:, j]] for j, e in enumerate(effects))
    prob = 1 / (1 + np.exp(-(score - score.mean())))
    return num, cat, (rng.random(ROWS) < prob).astype(np.float32)


def dense(x, units, name, activation=tf.nn.relu):
    with tf.variable_scope(name):
        d_in = int(x.shape[-1])
        w = tf.get_variable("w", [d_in, units],
                            initializer=tf.variance_scaling_initializer(2.0, seed=len(name)))
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        out = tf.matmul(x, w) + b
        return activation(out) if activation else out


def build_graph():
    num = tf.placeholder(tf.float32, [None, NUMERIC], "num")
    cat = tf.placeholder(tf.int32, [None, len(CARDINALITY)], "cat")
    label = tf.placeholder(tf.float32, [None], "label")
    parts = [num]
    for j, c in enumerate(CARDINALITY):
        table = tf.get_variable(f"emb{j}", [c, 8],
                                initializer=tf.random_normal_initializer(0, 0.05, seed=j))
        parts.append(tf.nn.embedding_lookup(table, cat[:, j]))
    h = tf.concat(parts, axis=1)
    for i, units in enumerate((512, 512, 512, 256)):
        h = dense(h, units, f"hidden_{i}" + "x" * i)
    logit = tf.squeeze(dense(h, 1, "out", activation=None), 1)

    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    hit = tf.equal(logit > 0, label > 0.5)
    accuracy = tf.reduce_mean(tf.cast(hit, tf.float32))
    train_op = tf.train.MomentumOptimizer(0.02, 0.9).minimize(loss)
    return (num, cat, label), loss, accuracy, train_op


def main():
    num, cat, label = make_loans()
    split = int(0.9 * ROWS)
    rng = np.random.default_rng(2)
    inputs, loss, accuracy, train_op = build_graph()

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        losses, accs = [], []
        start = time.perf_counter()
        for step in range(STEPS):
            if step == 20:
                start = time.perf_counter()
            idx = rng.integers(0, split, BATCH)
            feed = dict(zip(inputs, (num[idx], cat[idx], label[idx])))
            losses.append(sess.run(loss, feed_dict=feed))
            accs.append(sess.run(accuracy, feed_dict=feed))
            sess.run(train_op, feed_dict=feed)
            if (step + 1) % 100 == 0:
                print(f"step {step + 1:4d}  loss {np.mean(losses[-100:]):.4f}  "
                      f"acc {np.mean(accs[-100:]):.3f}", flush=True)
        elapsed = time.perf_counter() - start

        feed = dict(zip(inputs, (num[split:], cat[split:], label[split:])))
        val_loss, val_acc = sess.run([loss, accuracy], feed_dict=feed)
    print(f"final loss {losses[-1]:.4f}  val loss {val_loss:.4f}  val acc {val_acc:.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
