"""Wide & deep click model fed from TFRecord files (Criteo layout: 13 numeric, 26 categorical)."""
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

NUMERIC = ["I%d" % i for i in range(1, 14)]
CATEGORICAL = ["C%d" % i for i in range(1, 27)]
BUCKETS = 1000
ROWS_PER_SHARD = 4000
SHARDS = 4

flags = dict(batch_size=512, epochs=16, shuffle_buffer=2000, emb_dim=8, lr=1e-3, seed=17)

FEATURE_SPEC = {"label": tf.io.FixedLenFeature([], tf.float32)}
FEATURE_SPEC.update({k: tf.io.FixedLenFeature([], tf.float32, 0.0) for k in NUMERIC})
FEATURE_SPEC.update({k: tf.io.FixedLenFeature([], tf.int64, 0) for k in CATEGORICAL})


def write_shards(folder):
    rng = np.random.default_rng(0)
    w_num = rng.normal(0, 0.4, len(NUMERIC))
    w_cat = rng.normal(0, 0.5, (len(CATEGORICAL), BUCKETS))
    for s in range(SHARDS):
        num = np.log1p(rng.exponential(3, (ROWS_PER_SHARD, len(NUMERIC))))
        cat = np.minimum(rng.zipf(1.4, (ROWS_PER_SHARD, len(CATEGORICAL))), BUCKETS - 1)
        logit = num @ w_num + w_cat[np.arange(len(CATEGORICAL)), cat].sum(1) - 1.5
        label = rng.random(ROWS_PER_SHARD) < 1 / (1 + np.exp(-logit))
        with tf.io.TFRecordWriter(os.path.join(folder, "part-%05d.tfrecord" % s)) as out:
            for i in range(ROWS_PER_SHARD):
                f = {"label": tf.train.Feature(float_list=tf.train.FloatList(value=[float(label[i])]))}
                for j, k in enumerate(NUMERIC):
                    f[k] = tf.train.Feature(float_list=tf.train.FloatList(value=[num[i, j]]))
                for j, k in enumerate(CATEGORICAL):
                    f[k] = tf.train.Feature(int64_list=tf.train.Int64List(value=[cat[i, j]]))
                out.write(tf.train.Example(features=tf.train.Features(feature=f)).SerializeToString())


def parse_row(serialized):
    row = tf.io.parse_single_example(serialized, FEATURE_SPEC)
    label = row.pop("label")
    return row, label


def input_fn(folder):
    files = sorted(tf.io.gfile.glob(os.path.join(folder, "part-*.tfrecord")))
    ds = tf.data.TFRecordDataset(files)
    ds = ds.shuffle(flags["shuffle_buffer"], seed=flags["seed"])
    ds = ds.map(parse_row)
    ds = ds.batch(flags["batch_size"], drop_remainder=True)
    return ds.prefetch(2)


def wide_and_deep():
    inputs = {k: tf.keras.Input((), name=k, dtype="float32") for k in NUMERIC}
    inputs.update({k: tf.keras.Input((), name=k, dtype="int64") for k in CATEGORICAL})
    num = layers.Concatenate()([layers.Reshape((1,))(inputs[k]) for k in NUMERIC])
    deep, wide = [num], [layers.Dense(1)(num)]
    for k in CATEGORICAL:
        deep.append(layers.Embedding(BUCKETS, flags["emb_dim"], name="deep_" + k)(inputs[k]))
        wide.append(layers.Embedding(BUCKETS, 1, name="wide_" + k)(inputs[k]))
    h = layers.Concatenate()(deep)
    for units in (128, 64):
        h = layers.Dense(units, activation="relu")(h)
    out = layers.Add()([layers.Dense(1)(h)] + wide)
    return tf.keras.Model(inputs, layers.Reshape(())(out))


class LossPrinter(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.n, self.start = 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1
        if self.n % 5 == 0:
            print("batch %d loss %.4f (%.1fs)" % (self.n, logs["loss"], time.time() - self.start))


def main():
    tf.keras.utils.set_random_seed(flags["seed"])
    folder = tempfile.mkdtemp(prefix="criteo_")
    try:
        write_shards(folder)
        model = wide_and_deep()
        model.compile(tf.keras.optimizers.Adam(flags["lr"]), tf.keras.losses.BinaryCrossentropy(from_logits=True))
        model.fit(input_fn(folder), epochs=flags["epochs"], verbose=0, callbacks=[LossPrinter()])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
