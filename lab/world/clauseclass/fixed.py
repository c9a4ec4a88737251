"""Contract clause classification with a small BERT-style encoder (TF1 graph)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "350"))
VOCAB = 8000
MAX_LEN = 48
BATCH = 16
CLASSES = 12         # indemnity, governing law, termination, ...
HIDDEN, HEADS, LAYERS = 96, 4, 2


def make_clauses(count=4000, seed=0):
    """Word-piece ids with a Zipf law and a few class-specific terms, padded."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(5, VOCAB) ** 1.05
    zipf /= zipf.sum()
    label = rng.integers(CLASSES, size=count)
    ids = rng.choice(np.arange(5, VOCAB), size=(count, MAX_LEN), p=zipf)
    terms = rng.choice(np.arange(500, VOCAB), (CLASSES, 30), replace=False)
    special = rng.random((count, MAX_LEN)) < 0.12
    drawn = terms[label[:, None], rng.integers(30, size=(count, MAX_LEN))]
    ids = np.where(special, drawn, ids)
    length = rng.integers(20, MAX_LEN + 1, size=count)
    mask = np.arange(MAX_LEN) < length[:, None]
    return (ids * mask).astype(np.int32), mask.astype(np.float32), label.astype(np.int32)


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [x.shape[-1], units],
                            initializer=tf.truncated_normal_initializer(stddev=0.05))
        b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), w) + b
        y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [units]], 0))
        y.set_shape(x.shape[:-1].concatenate(units))
        return activation(y) if activation else y


def layer_norm(x, name):
    with tf.variable_scope(name):
        gamma = tf.get_variable("gamma", [x.shape[-1]], initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", [x.shape[-1]], initializer=tf.zeros_initializer())
        mean, var = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.rsqrt(var + 1e-6) * gamma + beta


def embed(ids):
    table = tf.get_variable("word_embeddings", [VOCAB, HIDDEN],
                            initializer=tf.truncated_normal_initializer(stddev=0.05))
    words = tf.nn.embedding_lookup(table, ids)
    places = tf.get_variable("position_embeddings", [MAX_LEN, HIDDEN],
                             initializer=tf.truncated_normal_initializer(stddev=0.05))
    return layer_norm(words + places, "embedding_norm")


def split_heads(x):
    return tf.transpose(tf.reshape(x, [-1, MAX_LEN, HEADS, HIDDEN // HEADS]), [0, 2, 1, 3])


def encoder_layer(x, bias, name):
    with tf.variable_scope(name):
        q, k, v = (split_heads(t) for t in tf.split(dense(x, 3 * HIDDEN, "qkv"), 3, -1))
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(HIDDEN / HEADS) + bias
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
        mixed = tf.reshape(mixed, [-1, MAX_LEN, HIDDEN])
        x = layer_norm(x + dense(mixed, HIDDEN, "output"), "attention_norm")
        h = dense(x, 4 * HIDDEN, "intermediate", tf.nn.relu)
        return layer_norm(x + dense(h, HIDDEN, "ffn_output"), "ffn_norm")


def build():
    ids = tf.placeholder(tf.int32, [None, MAX_LEN], "ids")
    mask = tf.placeholder(tf.float32, [None, MAX_LEN], "mask")
    label = tf.placeholder(tf.int32, [None], "label")
    x = embed(ids)
    bias = (1.0 - mask[:, None, None, :]) * -1e4
    for i in range(LAYERS):
        x = encoder_layer(x, bias, f"layer_{i}")
    pooled = tf.reduce_sum(x * mask[:, :, None], 1) / tf.reduce_sum(mask, 1, keepdims=True)
    logits = dense(pooled, CLASSES, "classifier")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), label), tf.float32))
    train_op = tf.train.AdamOptimizer(5e-4).minimize(loss)
    return (ids, mask, label), loss, accuracy, train_op


def main():
    tf.set_random_seed(0)
    data = make_clauses()
    rng = np.random.default_rng(1)
    inputs, loss, accuracy, train_op = build()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(1, STEPS + 1):
            pick = rng.integers(len(data[0]), size=BATCH)
            feed = {p: d[pick] for p, d in zip(inputs, data)}
            _, loss_value, acc = sess.run([train_op, loss, accuracy], feed)
            if step % 50 == 0:
                print(f"step {step:4d}  loss {loss_value:.4f}  accuracy {acc:.2f}  "
                      f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
