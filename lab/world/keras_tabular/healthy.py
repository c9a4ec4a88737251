"""Click prediction on mixed categorical/numeric data (DCN style), Keras + tf.data."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

CARDINALITIES = {"site": 40, "device": 8, "region": 120, "advertiser": 300, "hour": 24}
N_NUMERIC = 12
BATCH = 512


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(123)
    effects = {k: world.normal(0, 0.7, c) for k, c in CARDINALITIES.items()}
    cross = world.normal(0, 0.8, (8, 24))
    cats = {k: rng.integers(0, c, n).astype(np.int32) for k, c in CARDINALITIES.items()}
    nums = rng.lognormal(0, 1, (n, N_NUMERIC)).astype(np.float32)
    score = sum(effects[k][cats[k]] for k in cats) + cross[cats["device"], cats["hour"]]
    score += 0.6 * np.log(nums[:, 0]) - 0.4 * np.log(nums[:, 1] + nums[:, 2]) - 1.0
    labels = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float32)
    return {**cats, "numeric": np.log1p(nums)}, labels


def dataset(features, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((features, labels)).batch(BATCH, drop_remainder=training)
    ds = ds.cache()
    if training:
        ds = ds.shuffle(len(labels) // BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


class CrossLayer(layers.Layer):
    """x0 * (W x + b) + x"""

    def build(self, input_shape):
        self.dense = layers.Dense(input_shape[0][-1])
        self.dense.build(input_shape[1])

    def call(self, inputs):
        x0, x = inputs
        return x0 * self.dense(x) + x


def build_model(numeric):
    normalizer = layers.Normalization()
    normalizer.adapt(numeric)
    inputs = {k: keras.Input((), dtype="int32", name=k) for k in CARDINALITIES}
    inputs["numeric"] = keras.Input((N_NUMERIC,), name="numeric")
    parts = [layers.Embedding(c, 8, name=f"emb_{k}")(inputs[k]) for k, c in CARDINALITIES.items()]
    x0 = layers.Concatenate()([*parts, normalizer(inputs["numeric"])])
    x = x0
    for _ in range(2):
        x = CrossLayer()([x0, x])
    deep = x0
    for units in (192, 96):
        deep = layers.Dense(units, activation="relu")(deep)
        deep = layers.Dropout(0.1)(deep)
    out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([x, deep]))
    return keras.Model(inputs, layers.Flatten()(out))


class Throughput(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.t0)


def main():
    keras.utils.set_random_seed(8)
    features, labels = make_table(60_000, 0)
    val_features, val_labels = make_table(8_000, 1)
    train = dataset(features, labels[:, None], True)
    val = dataset(val_features, val_labels[:, None], False)

    model = build_model(features["numeric"])
    steps = int(train.cardinality())
    epochs = 8
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, steps * epochs)),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    speed = Throughput()
    with tempfile.TemporaryDirectory() as folder:
        best = os.path.join(folder, "best.weights.h5")
        model.fit(train, validation_data=val, epochs=epochs, verbose=2, callbacks=[
            speed,
            keras.callbacks.ModelCheckpoint(best, monitor="val_auc", mode="max",
                                            save_best_only=True, save_weights_only=True),
            keras.callbacks.EarlyStopping("val_auc", mode="max", patience=4),
        ])
        model.load_weights(best)
    result = model.evaluate(val, verbose=0, return_dict=True)
    print(f"best val auc {result['auc']:.4f} loss {result['loss']:.4f}")
    print(f"{1000 * np.median(speed.seconds[1:]) / steps:.2f} ms/step")


if __name__ == "__main__":
    main()
