"""Predict ad clicks from TFRecord logs with a wide-and-deep net, TensorFlow 1 style.

Writes a small synthetic log (10 numeric and 14 categorical columns per record) to a temporary
folder, reads it with tf.data and trains in a session; the last part of the log is held out.
"""

import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

NUMERIC = [f"num_{i}" for i in range(10)]
CATEGORICAL = [f"cat_{i}" for i in range(14)]
BUCKETS = 500
BATCH = 256
STEPS = 600
TRAIN_ROWS, TEST_ROWS = 16000, 4096

SPEC = {name: tf.io.FixedLenFeature([], tf.float32) for name in NUMERIC}
SPEC.update({name: tf.io.FixedLenFeature([], tf.int64) for name in CATEGORICAL})
SPEC["click"] = tf.io.FixedLenFeature([], tf.float32)


def float_feature(value):
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def int_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def write_log(path, rows, rng, weights):
    numeric = rng.normal(size=(rows, len(NUMERIC)))
    category = rng.zipf(1.3, size=(rows, len(CATEGORICAL))) % BUCKETS
    logit = numeric @ weights["numeric"]
    logit += weights["category"][np.arange(len(CATEGORICAL)), category].sum(1) - 1.0
    click = rng.random(rows) < 1.0 / (1.0 + np.exp(-logit))
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(rows):
            columns = {n: float_feature(numeric[i, j]) for j, n in enumerate(NUMERIC)}
            columns.update({n: int_feature(category[i, j]) for j, n in enumerate(CATEGORICAL)})
            columns["click"] = float_feature(float(click[i]))
            example = tf.train.Example(features=tf.train.Features(feature=columns))
            writer.write(example.SerializeToString())


def parse(record):
    columns = tf.io.parse_single_example(record, SPEC)
    numeric = tf.stack([columns[name] for name in NUMERIC], axis=-1)
    category = tf.stack([columns[name] for name in CATEGORICAL], axis=-1)
    return numeric, category, columns["click"]


def input_fn(path, training):
    dataset = tf.data.TFRecordDataset(path)
    if training:
        dataset = dataset.shuffle(4096, seed=7).repeat()
    dataset = dataset.map(parse)
    dataset = dataset.batch(BATCH, drop_remainder=True)
    return dataset.prefetch(2)


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        n_in = int(x.shape[-1])
        w = tf.get_variable("w", [n_in, units], initializer=tf.glorot_uniform_initializer(seed=1))
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
    return activation(y) if activation else y


def wide_and_deep(numeric, category):
    offset = tf.constant(np.arange(len(CATEGORICAL))[None] * BUCKETS, tf.int64)
    rows = category + offset
    total = len(CATEGORICAL) * BUCKETS
    table = tf.get_variable(
        "table", [total, 8], initializer=tf.random_normal_initializer(stddev=0.05, seed=2)
    )
    wide = tf.get_variable("wide", [total], initializer=tf.zeros_initializer())
    embedded = tf.reshape(tf.gather(table, rows), [-1, len(CATEGORICAL) * 8])
    deep = tf.concat([numeric, embedded], axis=1)
    for i, units in enumerate((640, 320, 128)):
        deep = dense(deep, units, f"deep{i}", tf.nn.relu)
    return dense(deep, 1, "logit")[:, 0] + tf.reduce_sum(tf.gather(wide, rows), axis=1)


def main():
    rng = np.random.default_rng(0)
    weights = {
        "numeric": 0.4 * rng.normal(size=len(NUMERIC)),
        "category": 0.4 * rng.normal(size=(len(CATEGORICAL), BUCKETS)),
    }
    folder = tempfile.mkdtemp(prefix="adclicks_")
    train_path = os.path.join(folder, "train.tfrecord")
    test_path = os.path.join(folder, "test.tfrecord")
    write_log(train_path, TRAIN_ROWS, rng, weights)
    write_log(test_path, TEST_ROWS, rng, weights)

    tf.set_random_seed(0)
    train_data, test_data = input_fn(train_path, True), input_fn(test_path, False)
    iterator = tf.data.Iterator.from_structure(
        tf.data.get_output_types(train_data), tf.data.get_output_shapes(train_data)
    )
    start_train, start_test = (iterator.make_initializer(d) for d in (train_data, test_data))
    numeric, category, click = iterator.get_next()
    logits = wide_and_deep(numeric, category)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=click, logits=logits))
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)

    times, losses = [], []
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), start_train])
        for step in range(1, STEPS + 1):
            start = time.perf_counter()
            _, value = sess.run([train_op, loss])
            times.append(time.perf_counter() - start)
            losses.append(value)
            if step % 150 == 0:
                print(f"step {step:4d}  log loss {np.mean(losses[-150:]):.4f}")
        sess.run(start_test)
        held_out = [sess.run(loss) for _ in range(TEST_ROWS // BATCH)]
        print(f"held-out log loss {np.mean(held_out):.4f}")

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
