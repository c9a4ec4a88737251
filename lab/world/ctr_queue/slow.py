# -*- coding: utf-8 -*-
"""Click prediction (factorization machine + MLP) on TFRecord logs read through input queues."""
import os
import shutil
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf2

tf = tf2.compat.v1
tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)

FIELDS = ["user", "ad", "site", "app", "device", "geo", "hour", "slot", "category", "advertiser"]
N_NUMERIC = 13
BUCKETS = 2000
FACTOR = 8
BATCH = 256
ROWS = 20000
MAX_STEPS = 200


def write_logs(folder, rng):
    bias = rng.normal(0, 0.7, (len(FIELDS), BUCKETS))
    files = []
    for shard in range(2):
        path = os.path.join(folder, "part-%05d" % shard)
        files.append(path)
        ids = rng.zipf(1.4, (ROWS // 2, len(FIELDS))) % BUCKETS
        dense = rng.normal(size=(ROWS // 2, N_NUMERIC)).astype(np.float32)
        score = bias[np.arange(len(FIELDS)), ids].sum(1) + dense[:, 0] - 1.0
        click = (rng.uniform(size=len(score)) < 1 / (1 + np.exp(-score))).astype(np.int64)
        with tf2.io.TFRecordWriter(path) as out:
            for r in range(len(click)):
                feat = {"click": tf2.train.Feature(int64_list=tf2.train.Int64List(value=[click[r]]))}
                for k, name in enumerate(FIELDS):
                    feat[name] = tf2.train.Feature(int64_list=tf2.train.Int64List(value=[ids[r, k]]))
                feat["dense"] = tf2.train.Feature(float_list=tf2.train.FloatList(value=dense[r]))
                ex = tf2.train.Example(features=tf2.train.Features(feature=feat))
                out.write(ex.SerializeToString())
    return files


def feature_spec():
    spec = {name: tf.FixedLenFeature([], tf.int64) for name in FIELDS}
    spec["dense"] = tf.FixedLenFeature([N_NUMERIC], tf.float32)
    spec["click"] = tf.FixedLenFeature([], tf.int64)
    return spec


def input_pipeline(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=True, seed=1)
    reader = tf.TFRecordReader()
    _, record = reader.read(filename_queue)
    example = tf.parse_single_example(record, feature_spec())
    batch = tf.train.shuffle_batch(
        example, batch_size=BATCH, num_threads=2, capacity=8 * BATCH, min_after_dequeue=4 * BATCH, seed=2
    )
    return batch


def deep_fm(batch):
    ids = tf.stack([batch[f] for f in FIELDS], axis=1) + np.arange(len(FIELDS), dtype=np.int64) * BUCKETS
    table = tf.get_variable("factors", [len(FIELDS) * BUCKETS, FACTOR], initializer=tf.random_normal_initializer(0, 0.01))
    linear = tf.get_variable("linear", [len(FIELDS) * BUCKETS, 1], initializer=tf.zeros_initializer())
    emb = tf.nn.embedding_lookup(table, ids)
    first = tf.reduce_sum(tf.nn.embedding_lookup(linear, ids), axis=[1, 2])
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(emb, 1)) - tf.reduce_sum(tf.square(emb), 1), axis=1)
    h = tf.concat([tf.reshape(emb, [-1, len(FIELDS) * FACTOR]), batch["dense"]], axis=1)
    for i, units in enumerate([128, 64, 1]):
        w = tf.get_variable("w%d" % i, [h.shape[-1], units], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b%d" % i, [units], initializer=tf.zeros_initializer())
        h = tf.matmul(h, w) + b
        if units > 1:
            h = tf.nn.relu(h)
    return first + second + h[:, 0]


def main():
    rng = np.random.RandomState(0)
    tf.set_random_seed(0)
    folder = tempfile.mkdtemp(prefix="clicks_")
    files = write_logs(folder, rng)

    batch = input_pipeline(files)
    logit = deep_fm(batch)
    label = tf.cast(batch["click"], tf.float32)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    train_op = tf.train.AdagradOptimizer(0.05).minimize(loss)

    config = tf.ConfigProto(inter_op_parallelism_threads=4)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        durations, losses = [], []
        for step in range(MAX_STEPS):
            t0 = time.time()
            _, value = sess.run([train_op, loss])
            durations.append(time.time() - t0)
            losses.append(value)
            if step % 50 == 49:
                print("step %d logloss %.4f" % (step + 1, np.mean(losses[-50:])))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=5, ignore_live_threads=True)
    shutil.rmtree(folder, ignore_errors=True)
    print("%d steps, median %.1f ms" % (MAX_STEPS, 1e3 * np.median(durations)))


if __name__ == "__main__":
    main()
