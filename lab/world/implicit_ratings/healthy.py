"""Neural collaborative filtering with sampled negatives (graph mode)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

N_USERS, N_ITEMS, DIM, NEGATIVES = 3000, 2000, 16, 4
BATCH, STEPS, LR, SEED = 640, 600, 0.1, 31


def make_log(n=80_000, groups=25):
    rng = np.random.default_rng(SEED)
    user_group = rng.integers(0, groups, N_USERS)
    users = rng.integers(0, N_USERS, n)
    span = N_ITEMS // groups
    items = user_group[users] * span + (span * rng.beta(1, 2, n)).astype(int)
    return users.astype(np.int32), items.astype(np.int32)


def table(name, rows, dim):
    return tf.get_variable(name, [rows, dim], initializer=tf.random_normal_initializer(stddev=0.3, seed=SEED))


def dense(x, n_in, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [n_in, units], initializer=tf.glorot_uniform_initializer(seed=SEED))
        b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return activation(y) if activation else y


def build():
    users = tf.placeholder(tf.int32, [None])
    items = tf.placeholder(tf.int32, [None])
    labels = tf.placeholder(tf.float32, [None])
    gmf = tf.nn.embedding_lookup(table("gmf_user", N_USERS, DIM), users) \
        * tf.nn.embedding_lookup(table("gmf_item", N_ITEMS, DIM), items)
    pair = tf.concat([tf.nn.embedding_lookup(table("mlp_user", N_USERS, DIM), users),
                      tf.nn.embedding_lookup(table("mlp_item", N_ITEMS, DIM), items)], axis=1)
    h = dense(pair, 2 * DIM, 256, "l1", tf.nn.relu)
    h = dense(h, 256, 256, "l2", tf.nn.relu)
    h = dense(h, 256, 64, "l3", tf.nn.relu)
    logit = tf.squeeze(dense(tf.concat([gmf, h], axis=1), DIM + 64, 1, "out"), axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))
    train = tf.train.AdagradOptimizer(LR).minimize(loss)
    return users, items, labels, loss, train


def main():
    tf.set_random_seed(SEED)
    log_users, log_items = make_log()
    rng = np.random.default_rng(SEED + 1)
    users, items, labels, loss, train = build()
    target = np.zeros((BATCH, 1 + NEGATIVES), np.float32)
    target[:, 0] = 1.0
    target = target.reshape(-1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(STEPS):
            pick = rng.integers(0, len(log_users), BATCH)
            negative = rng.integers(0, N_ITEMS, (BATCH, NEGATIVES), dtype=np.int32)
            batch_items = np.concatenate([log_items[pick][:, None], negative], axis=1).reshape(-1)
            feed = {users: np.repeat(log_users[pick], 1 + NEGATIVES), items: batch_items, labels: target}
            value, _ = sess.run([loss, train], feed_dict=feed)
            if step % 50 == 0 or step == STEPS - 1:
                print(f"step {step:4d} loss {value:.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
