#!/usr/bin/env python3
"""Card-fraud scoring on a transaction table (wide part + embeddings + MLP)."""
import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

CATEGORICAL = {"merchant": 6000, "mcc": 380, "country": 190, "device": 1200, "hour": 24}
N_NUMERIC = 42


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=163840)
    p.add_argument("--val-rows", type=int, default=16384)
    p.add_argument("--batch-size", type=int, default=4096)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--fraud-rate", type=float, default=0.012)
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


def make_table(rows, fraud_rate, seed):
    rng = np.random.default_rng(seed)
    risk = np.random.default_rng(99)
    cats, score = {}, np.zeros(rows)
    for name, size in CATEGORICAL.items():
        cats[name] = (rng.zipf(1.3, rows) % size).astype("int32")
        score += risk.normal(0, 0.5, size)[cats[name]]
    numeric = rng.normal(size=(rows, N_NUMERIC)).astype("float32")
    score += numeric @ risk.normal(0, 0.35, N_NUMERIC) + 0.4 * numeric[:, 0] * numeric[:, 1]
    score += rng.logistic(0, 0.4, rows)
    label = (score > np.quantile(score, 1 - fraud_rate)).astype("float32")
    return {**cats, "numeric": numeric}, label[:, None]


def as_dataset(features, label, batch_size, training):
    """Whole batches, cut once; their order changes from epoch to epoch."""
    n = len(label) // batch_size

    def cut(a):
        return a[:n * batch_size].reshape(n, batch_size, *a.shape[1:])

    ds = tf.data.Dataset.from_tensor_slices(({k: cut(v) for k, v in features.items()}, cut(label)))
    if training:
        ds = ds.shuffle(n, reshuffle_each_iteration=True)
    return ds.prefetch(tf.data.AUTOTUNE)


class CrossLayer(keras.layers.Layer):
    """x_{l+1} = x0 * (U V x_l + b) + x_l, low-rank as in DCN-v2."""

    def __init__(self, rank, **kwargs):
        super().__init__(**kwargs)
        self.rank = rank

    def build(self, input_shape):
        dim = input_shape[0][-1]
        self.v = self.add_weight(shape=(dim, self.rank), initializer="glorot_uniform", name="v")
        self.u = self.add_weight(shape=(self.rank, dim), initializer="glorot_uniform", name="u")
        self.b = self.add_weight(shape=(dim,), initializer="zeros", name="b")

    def call(self, inputs):
        x0, x = inputs
        return x0 * (keras.ops.matmul(keras.ops.matmul(x, self.v), self.u) + self.b) + x


def build_model(fraud_rate):
    inputs = {n: keras.Input((), dtype="int32", name=n) for n in CATEGORICAL}
    inputs["numeric"] = keras.Input((N_NUMERIC,), name="numeric")
    parts = [keras.layers.Embedding(size, 8, name=f"emb_{n}")(inputs[n]) for n, size in CATEGORICAL.items()]
    parts.append(keras.layers.BatchNormalization()(inputs["numeric"]))
    x0 = keras.layers.Concatenate()(parts)
    cross = CrossLayer(16)([x0, x0])
    cross = CrossLayer(16)([x0, cross])
    deep = keras.layers.Dense(128, activation="relu")(x0)
    deep = keras.layers.Dropout(0.1)(deep)
    deep = keras.layers.Dense(64, activation="relu")(deep)
    prior = float(np.log(fraud_rate / (1 - fraud_rate)))
    out = keras.layers.Dense(1, activation="sigmoid", name="p_fraud",
                             bias_initializer=keras.initializers.Constant(prior))(
        keras.layers.Concatenate()([cross, deep]))
    return keras.Model(inputs, out)


class Throughput(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ms = []

    def on_train_batch_begin(self, batch, logs=None):
        self.t0 = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.ms.append(1e3 * (time.perf_counter() - self.t0))


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)
    train = as_dataset(*make_table(args.rows, args.fraud_rate, 1), args.batch_size, True)
    val = as_dataset(*make_table(args.val_rows, args.fraud_rate, 2), args.batch_size, False)

    # scores crowd near zero, so the curve needs fine steps; an even grid is updated by bucketing
    curve = {"num_thresholds": 8001}
    metrics = [
        keras.metrics.AUC(curve="PR", name="pr_auc", **curve),
        keras.metrics.AUC(curve="ROC", name="roc_auc", **curve),
        keras.metrics.BinaryAccuracy(name="acc"),
    ]
    model = build_model(args.fraud_rate)
    model.compile(keras.optimizers.Adam(args.lr), loss=keras.losses.BinaryFocalCrossentropy(gamma=1.0),
                  metrics=metrics)

    speed = Throughput()
    with tempfile.TemporaryDirectory() as out:
        callbacks = [
            speed,
            keras.callbacks.CSVLogger(os.path.join(out, "log.csv")),
            keras.callbacks.EarlyStopping("val_pr_auc", mode="max", patience=4),
            keras.callbacks.ModelCheckpoint(os.path.join(out, "best.weights.h5"), monitor="val_pr_auc",
                                            mode="max", save_best_only=True, save_weights_only=True),
        ]
        hist = model.fit(train, validation_data=val, epochs=args.epochs, callbacks=callbacks, verbose=2)
    print("best val PR-AUC %.4f" % max(hist.history["val_pr_auc"]))
    print("median ms/step %.2f (%d steps)" % (np.median(speed.ms), len(speed.ms)))


if __name__ == "__main__":
    main()
