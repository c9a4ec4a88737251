"""Next-item prediction with a stacked GRU, TF1 graph and session."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "1200"))
N_ITEMS, DIM, SEQ, BATCH = 400, 32, 8, 64
BASE_LR, WARMUP = 3e-3, 40


def make_sessions(n, seed):
    rng = np.random.default_rng(seed)
    succ = rng.permutation(N_ITEMS)
    seqs = np.empty((n, SEQ + 1), np.int32)
    seqs[:, 0] = rng.integers(0, N_ITEMS, n)
    for t in range(1, SEQ + 1):
        jump = rng.random(n) < 0.3
        seqs[:, t] = np.where(jump, rng.integers(0, N_ITEMS, n), succ[seqs[:, t - 1]])
    return seqs


def gru(xs, size, name):
    """Static unroll over SEQ positions."""
    with tf.variable_scope(name):
        width = int(xs[0].shape[1])
        init = tf.glorot_uniform_initializer()
        wg = tf.get_variable("wg", [width + size, 2 * size], initializer=init)
        bg = tf.get_variable("bg", [2 * size], initializer=tf.ones_initializer())
        wc = tf.get_variable("wc", [width + size, size], initializer=init)
        bc = tf.get_variable("bc", [size], initializer=tf.zeros_initializer())
        h = tf.zeros([tf.shape(xs[0])[0], size])
        outs = []
        for x in xs:
            gates = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), wg) + bg)
            r, u = tf.split(gates, 2, axis=1)
            cand = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), wc) + bc)
            h = u * h + (1.0 - u) * cand
            outs.append(h)
        return outs


def build_graph():
    items = tf.placeholder(tf.int32, [None, SEQ + 1], "items")
    table = tf.get_variable("items_emb", [N_ITEMS, DIM], initializer=tf.random_normal_initializer(stddev=0.1))
    xs = tf.unstack(tf.nn.embedding_lookup(table, items[:, :-1]), axis=1)
    hs = gru(gru(xs, 48, "gru1"), DIM, "gru2")
    h = tf.stack(hs, axis=1)
    logits = tf.tensordot(h, table, [[2], [1]])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=items[:, 1:], logits=logits))

    lr = tf.get_variable("lr", [], initializer=tf.constant_initializer(BASE_LR), trainable=False)
    opt = tf.train.AdamOptimizer(lr)
    grads, tvars = zip(*opt.compute_gradients(loss))
    grads, norm = tf.clip_by_global_norm(grads, 1.0)
    train_op = opt.apply_gradients(zip(grads, tvars))
    return items, loss, norm, lr, train_op


def learning_rate(step):
    return BASE_LR * min(step / WARMUP, (WARMUP / step) ** 0.5)


def main():
    tf.set_random_seed(0)
    sessions = make_sessions(6000, 1)
    rng = np.random.default_rng(2)
    items, loss, norm, lr, train_op = build_graph()

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        smooth = None
        for step in range(1, STEPS + 1):
            if step % 5 == 1:
                sess.run(tf.assign(lr, learning_rate(step)))
            rows = rng.integers(0, len(sessions), BATCH)
            _, loss_v, norm_v = sess.run([train_op, loss, norm], {items: sessions[rows]})
            smooth = loss_v if smooth is None else 0.95 * smooth + 0.05 * loss_v
            if step % 100 == 0 or step == STEPS:
                print(f"step {step} loss {smooth:.4f} grad {norm_v:.3f}", flush=True)


if __name__ == "__main__":
    main()
