"""House price regression with Keras: normalisation, embeddings and a residual MLP."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

STEPS = int(os.environ.get("STEPS", "500"))
EPOCHS = 5
ROWS = 60_000
BATCH = 1024
DISTRICTS = 120


def make_sales(seed=0):
    rng = np.random.default_rng(seed)
    district = rng.integers(0, DISTRICTS, ROWS).astype(np.int32)
    area = rng.gamma(6.0, 18.0, ROWS)
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.7, ROWS)), 1, 9)
    age = rng.uniform(0, 100, ROWS)
    dist = rng.exponential(6.0, ROWS)
    extras = rng.normal(size=(ROWS, 12))
    level = np.random.default_rng(7).normal(0, 0.3, DISTRICTS)
    log_price = (11 + 0.85 * np.log(area) + level[district] - 0.004 * age + 0.03 * rooms
                 - 0.05 * np.sqrt(dist) + 0.08 * extras[:, 0] * extras[:, 1]
                 + 0.05 * extras[:, 2] + rng.normal(0, 0.08, ROWS))
    numeric = np.column_stack([np.log(area), rooms, age, dist, extras]).astype(np.float32)
    return numeric, district, log_price.astype(np.float32)


def build_model(normalizer, base):
    numeric = keras.Input((normalizer.mean.shape[-1],), name="numeric")
    district = keras.Input((), dtype="int32", name="district")
    place = layers.Embedding(DISTRICTS, 16)(district)
    x = layers.Concatenate()([normalizer(numeric), place])
    x = layers.Dense(256, activation="relu")(x)
    for _ in range(3):
        h = layers.Dense(256, activation="relu")(x)
        h = layers.Dense(256)(h)
        x = layers.ReLU()(layers.Add()([x, h]))
    out = layers.Dense(1, bias_initializer=keras.initializers.Constant(base))(x)
    return keras.Model([numeric, district], layers.Reshape(())(out))


class StepTimer(keras.callbacks.Callback):
    def __init__(self, skip=20):
        super().__init__()
        self.skip, self.seen, self.start = skip, 0, None

    def on_train_batch_begin(self, batch, logs=None):
        if self.seen == self.skip:
            self.start = time.perf_counter()
        self.seen += 1

    def on_epoch_end(self, epoch, logs=None):
        text = "  ".join(f"{k} {v:.4f}" for k, v in logs.items())
        print(f"epoch {epoch + 1}  {text}", flush=True)


def main():
    keras.utils.set_random_seed(0)
    numeric, district, target = make_sales()
    split = int(0.9 * ROWS)
    normalizer = layers.Normalization()
    normalizer.adapt(numeric[:split])

    def dataset(part, training):
        x, d, y = (tf.constant(a[part]) for a in (numeric, district, target))

        def gather(idx):
            return {"numeric": tf.gather(x, idx), "district": tf.gather(d, idx)}, tf.gather(y, idx)

        rows = len(y)
        if training:
            picks = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True)
            picks = picks.batch(BATCH).map(lambda r: r % rows)
        else:
            picks = tf.data.Dataset.range(rows).batch(2000)
        return picks.map(gather).prefetch(2)

    model = build_model(normalizer, float(target[:split].mean()))
    steps_per_epoch = max(STEPS // EPOCHS, 1)
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, max(STEPS, 1))
    model.compile(optimizer=keras.optimizers.Adam(schedule), loss="mse", metrics=["mae"])
    timer = StepTimer()
    history = model.fit(dataset(slice(0, split), True), epochs=EPOCHS,
                        steps_per_epoch=steps_per_epoch, callbacks=[timer], verbose=0)
    elapsed = time.perf_counter() - (timer.start or time.perf_counter())
    val_loss, val_mae = model.evaluate(dataset(slice(split, ROWS), False), verbose=0)
    print(f"final loss {history.history['loss'][-1]:.5f}  val loss {val_loss:.5f}  "
          f"val mae {val_mae:.4f}")
    print(f"{1000 * elapsed / max(timer.seen - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
