"""Click prediction with a deep & cross network, Keras on TensorFlow, tf.data input."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

ROWS = 120_000
BATCH = 1024
CARDINALITIES = [2000, 800, 300, 120, 50, 24, 7]
NUMERIC = 13


def synthetic_clicks(rng):
    cats = np.stack([np.minimum(rng.zipf(1.3, ROWS), c) - 1 for c in CARDINALITIES], 1).astype("int32")
    nums = rng.lognormal(0, 1, (ROWS, NUMERIC)).astype("float32")
    effect = [rng.normal(0, 0.7, c) for c in CARDINALITIES]
    score = sum(e[cats[:, i]] for i, e in enumerate(effect)) + 0.3 * np.log(nums[:, 0]) * np.log(nums[:, 1]) - 1.0
    clicks = (rng.random(ROWS) < 1 / (1 + np.exp(-score))).astype("float32")
    return {"cats": cats, "nums": nums}, clicks


def pipeline(features, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((features, labels))
    if training:
        ds = ds.shuffle(20_000, seed=2)
    ds = ds.batch(BATCH, drop_remainder=training)

    def prepare(x, y):
        return {"cats": x["cats"], "nums": tf.math.log1p(x["nums"])}, y[:, None]

    return ds.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


@keras.saving.register_keras_serializable("dcn")
class Cross(layers.Layer):
    def __init__(self, rank=48, **kw):
        super().__init__(**kw)
        self.rank = rank

    def build(self, shape):
        d = shape[0][-1]
        self.u = self.add_weight(shape=(d, self.rank), initializer="glorot_uniform", name="u")
        self.v = self.add_weight(shape=(self.rank, d), initializer="glorot_uniform", name="v")
        self.b = self.add_weight(shape=(d,), initializer="zeros", name="b")

    def call(self, inputs):
        x0, x = inputs
        return x0 * (keras.ops.matmul(keras.ops.matmul(x, self.u), self.v) + self.b) + x

    def get_config(self):
        return {**super().get_config(), "rank": self.rank}


def build():
    cats = keras.Input((len(CARDINALITIES),), dtype="int32", name="cats")
    nums = keras.Input((NUMERIC,), name="nums")
    offsets = np.concatenate([[0], np.cumsum(CARDINALITIES)[:-1]]).astype("int32")
    emb = layers.Embedding(sum(CARDINALITIES), 16)(cats + offsets)
    x0 = layers.Concatenate()([layers.Flatten()(emb), layers.BatchNormalization()(nums)])
    x = x0
    for _ in range(3):
        x = Cross()([x0, x])
    deep = x0
    for units in (256, 128):
        deep = layers.Dropout(0.1)(layers.Dense(units, activation="relu")(deep))
    out = layers.Dense(1)(layers.Concatenate()([x, deep]))
    return keras.Model({"cats": cats, "nums": nums}, out)


class Pace(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.stamps = []

    def on_train_batch_end(self, batch, logs=None):
        self.stamps.append(time.perf_counter())


def main():
    keras.utils.set_random_seed(0)
    x, y = synthetic_clicks(np.random.default_rng(0))
    cut = int(0.9 * ROWS)
    train = pipeline({k: v[:cut] for k, v in x.items()}, y[:cut], True)
    valid = pipeline({k: v[cut:] for k, v in x.items()}, y[cut:], False)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True, name="auc")],
    )
    pace = Pace()
    hist = model.fit(train, validation_data=valid, epochs=3, verbose=2, callbacks=[pace])
    print("val auc", hist.history["val_auc"])
    print("steps", len(pace.stamps), "median ms/step", 1e3 * np.median(np.diff(pace.stamps)))


if __name__ == "__main__":
    main()
