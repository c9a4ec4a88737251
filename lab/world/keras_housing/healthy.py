"""House price regression with preprocessing layers and a tf.data pipeline."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SEED, BATCH, EPOCHS = 21, 512, 8
NUMERIC, DISTRICTS = 24, 300


def houses(n):
    rng = np.random.default_rng(SEED)
    num = rng.lognormal(0.0, 0.6, (n, NUMERIC)).astype("float32")
    district = rng.integers(0, DISTRICTS, n).astype("int32")
    level = rng.normal(0, 0.5, DISTRICTS)
    price = np.log1p(num[:, 0] * num[:, 1] + num[:, 2]) + level[district]
    price += 0.2 * np.tanh(num[:, 3] - num[:, 4]) + rng.normal(0, 0.1, n)
    return {"num": num, "district": district}, price.astype("float32")


def to_log(features, price):
    return {"num": tf.math.log1p(features["num"]), "district": features["district"]}, price


def pipeline(features, price, training):
    ds = tf.data.Dataset.from_tensor_slices((features, price))
    if training:
        ds = ds.shuffle(len(price), seed=SEED)
    ds = ds.batch(BATCH, drop_remainder=training)
    return ds.map(to_log, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def make_model(width=512):
    num = keras.Input((NUMERIC,), name="num")
    district = keras.Input((), dtype="int32", name="district")
    h = layers.Concatenate()(
        [layers.BatchNormalization()(num), layers.Embedding(DISTRICTS, 16)(district)]
    )
    for _ in range(3):
        h = layers.Dense(width, activation="gelu")(h)
        h = layers.Dropout(0.1)(h)
    return keras.Model({"num": num, "district": district}, layers.Dense(1)(h))


def main():
    keras.utils.set_random_seed(SEED)
    features, price = houses(22_000)
    cut = 20_000
    train = pipeline({k: v[:cut] for k, v in features.items()}, price[:cut], True)
    val = pipeline({k: v[cut:] for k, v in features.items()}, price[cut:], False)

    model = make_model()
    schedule = keras.optimizers.schedules.CosineDecay(
        1e-3, EPOCHS * (cut // BATCH), warmup_target=2e-3, warmup_steps=20
    )
    model.compile(keras.optimizers.AdamW(schedule), loss="huber", metrics=["mae"])
    history = model.fit(train, validation_data=val, epochs=EPOCHS, verbose=0)
    for e in range(EPOCHS):
        row = {k: v[e] for k, v in history.history.items()}
        print("epoch {} loss {loss:.4f} mae {mae:.4f} val_mae {val_mae:.4f}".format(e, **row))


if __name__ == "__main__":
    main()
