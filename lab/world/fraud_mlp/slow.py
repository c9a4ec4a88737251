"""Card fraud detection on synthetic tabular data with a Keras MLP."""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

NUMERIC, CATEGORICAL, CARDINALITY = 24, 6, 200


def make_transactions(count, seed=0):
    rng = np.random.default_rng(seed)
    num = rng.normal(0, 1, size=(count, NUMERIC)).astype(np.float32)
    num[:, :4] = np.exp(num[:, :4])
    cat = (CARDINALITY * rng.random((count, CATEGORICAL)) ** 2).astype(np.int32)
    effect = rng.normal(0, 0.7, size=(CATEGORICAL, CARDINALITY)).astype(np.float32)
    score = sum(effect[k, cat[:, k]] for k in range(CATEGORICAL))
    score = score + 0.8 * num[:, 4] * num[:, 5] + 0.5 * num[:, 0] - np.abs(num[:, 6])
    y = (score + rng.logistic(0, 0.5, count) > np.quantile(score, 0.975)).astype(np.float32)
    return num, cat, y


def standardise(num):
    num = np.sign(num) * np.log1p(np.abs(num))
    return (num - num.mean(0)) / num.std(0)


def build_model(hidden, dropout):
    num_in = keras.Input((NUMERIC,), name="num")
    cat_in = keras.Input((CATEGORICAL,), dtype="int32", name="cat")
    offsets = np.arange(CATEGORICAL, dtype=np.int32) * CARDINALITY
    emb = layers.Embedding(CATEGORICAL * CARDINALITY, 8)(cat_in + offsets)
    h = layers.Concatenate()([num_in, layers.Flatten()(emb)])
    for width in (hidden, hidden, hidden // 2):
        h = layers.Dense(width)(h)
        h = layers.BatchNormalization()(h)
        h = layers.Activation("relu")(h)
        h = layers.Dropout(dropout)(h)
    out = layers.Dense(1, activation="sigmoid")(h)
    return keras.Model({"num": num_in, "cat": cat_in}, out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1000, help="training steps in total")
    p.add_argument("--steps-per-epoch", type=int, default=50)
    p.add_argument("--batch-size", type=int, default=2048)
    p.add_argument("--rows", type=int, default=150000)
    p.add_argument("--hidden", type=int, default=192)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    keras.utils.set_random_seed(0)
    num, cat, y = make_transactions(args.rows)
    num = standardise(num).astype(np.float32)
    split = int(0.95 * args.rows)
    train = (tf.data.Dataset.from_tensor_slices(({"num": num[:split], "cat": cat[:split]}, y[:split]))
             .batch(args.batch_size, drop_remainder=True)
             .cache().shuffle(200).repeat().prefetch(2))
    val = (tf.data.Dataset.from_tensor_slices(({"num": num[split:], "cat": cat[split:]}, y[split:]))
           .batch(args.batch_size))

    model = build_model(args.hidden, args.dropout)
    thresholds = np.logspace(-4, 0, 2500).tolist()
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=[
            keras.metrics.AUC(curve="PR", thresholds=thresholds, name="pr_auc"),
            keras.metrics.Precision(thresholds=0.5, name="precision"),
            keras.metrics.Recall(thresholds=0.5, name="recall"),
        ],
    )
    model.fit(train, steps_per_epoch=args.steps_per_epoch,
              epochs=max(1, args.steps // args.steps_per_epoch),
              class_weight={0: 1.0, 1: 8.0}, verbose=2)
    scores = model.evaluate(val, verbose=0, return_dict=True)
    print({k: round(float(v), 4) for k, v in scores.items()})


if __name__ == "__main__":
    main()
