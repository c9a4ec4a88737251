"""Two-tower retrieval model with in-batch negatives (graph mode)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

N_USERS, N_ITEMS, DIM = 9000, 12000, 64
BATCH, STEPS, LR, SEED, TEMPERATURE = 384, 450, 0.02, 6, 0.1


def make_log(n=120_000, groups=40):
    rng = np.random.default_rng(SEED)
    user_group = rng.integers(0, groups, N_USERS)
    item_order = rng.permutation(N_ITEMS)
    users = rng.integers(0, N_USERS, n)
    span = N_ITEMS // groups
    inside = (span * rng.beta(1.0, 3.0, n)).astype(int)
    items = item_order[user_group[users] * span + inside]
    hours = rng.integers(0, 24, n)
    return users.astype(np.int32), items.astype(np.int32), hours.astype(np.int32)


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [x.shape[-1], units],
                            initializer=tf.glorot_uniform_initializer(seed=SEED))
        b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return activation(y) if activation else y


def embedding_table(name, rows, dim):
    init = tf.random_normal_initializer(stddev=0.1, seed=SEED)
    return tf.get_variable(name, [rows, dim], initializer=init)


def unit_rows(table, ids):
    rows = tf.nn.embedding_lookup(table, ids)
    return tf.nn.l2_normalize(rows, axis=1)


def build():
    users = tf.placeholder(tf.int32, [None], "users")
    items = tf.placeholder(tf.int32, [None], "items")
    hours = tf.placeholder(tf.int32, [None], "hours")
    user_vec = unit_rows(embedding_table("user_emb", N_USERS, DIM), users)
    item_vec = unit_rows(embedding_table("item_emb", N_ITEMS, DIM), items)
    hour_vec = tf.nn.embedding_lookup(embedding_table("hour_emb", 24, 16), hours)
    with tf.variable_scope("user_tower"):
        u = dense(tf.concat([user_vec, hour_vec], axis=1), 384, "l1", tf.nn.relu)
        u = dense(u, 384, "l2", tf.nn.relu)
        u = dense(u, DIM, "l3")
    with tf.variable_scope("item_tower"):
        v = dense(item_vec, 384, "l1", tf.nn.relu)
        v = dense(v, 384, "l2", tf.nn.relu)
        v = dense(v, DIM, "l3")
    u, v = tf.nn.l2_normalize(u, axis=1), tf.nn.l2_normalize(v, axis=1)
    logits = tf.matmul(u, v, transpose_b=True) / TEMPERATURE
    target = tf.range(tf.shape(users)[0])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits))
    hit = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), target), tf.float32))
    train = tf.train.AdagradOptimizer(LR).minimize(loss)
    return (users, items, hours), loss, hit, train


def main():
    tf.set_random_seed(SEED)
    log_users, log_items, log_hours = make_log()
    rng = np.random.default_rng(SEED + 1)
    (users, items, hours), loss, hit, train = build()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(STEPS):
            pick = rng.integers(0, len(log_users), BATCH)
            feed = {users: log_users[pick], items: log_items[pick], hours: log_hours[pick]}
            if step % 50 == 0 or step == STEPS - 1:
                value, acc, _ = sess.run([loss, hit, train], feed_dict=feed)
                print(f"step {step:4d} loss {value:.4f} in-batch hit {acc:.3f} "
                      f"time {time.time() - start:.1f}s", flush=True)
            else:
                sess.run(train, feed_dict=feed)


if __name__ == "__main__":
    main()
