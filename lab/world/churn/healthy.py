"""Customer churn from mixed tabular data with Keras fit: embeddings for categories, AUC on validation only."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

CARDINALITIES = (12, 50, 400, 1500)
N_NUMERIC = 40
N_TRAIN = 51200
N_VALID = 8192
BATCH = 256
EPOCHS = 11


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    numeric = rng.normal(size=(n, N_NUMERIC)).astype("float32")
    cats = np.stack([rng.integers(0, c, n) for c in CARDINALITIES], axis=1).astype("int32")
    effect = sum(np.sin(cats[:, i] * (i + 1.7)) for i in range(len(CARDINALITIES)))
    logit = numeric[:, :8].sum(1) * 0.4 + numeric[:, 8] * numeric[:, 9] + effect
    y = (logit + rng.logistic(size=n) > 0.5).astype("float32")
    return {"numeric": numeric, "cats": cats}, y


def build_model():
    numeric = keras.Input((N_NUMERIC,), name="numeric")
    cats = keras.Input((len(CARDINALITIES),), dtype="int32", name="cats")
    parts = [layers.BatchNormalization()(numeric)]
    for i, c in enumerate(CARDINALITIES):
        parts.append(layers.Embedding(c, min(24, 2 + c // 8))(cats[:, i]))
    x = layers.Concatenate()(parts)
    for width in (384, 256, 128):
        x = layers.Dense(width, activation="gelu")(x)
        x = layers.Dropout(0.2)(x)
    return keras.Model([numeric, cats], layers.Dense(1)(x))


def to_dataset(x, y, shuffle):
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache()
    if shuffle:
        ds = ds.shuffle(len(y), seed=0)
    return ds.batch(BATCH if shuffle else 2048).prefetch(2)


class ValidationAUC(keras.callbacks.Callback):
    def __init__(self, ds, y):
        super().__init__()
        self.ds, self.y = ds, y

    def on_epoch_end(self, epoch, logs=None):
        score = self.model.predict(self.ds, verbose=0)[:, 0]
        rank = np.empty(len(score))
        rank[np.argsort(score)] = np.arange(1, len(score) + 1)
        pos = self.y > 0.5
        auc = (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())
        print(f"  val_auc {auc:.4f}", flush=True)


def main():
    keras.utils.set_random_seed(0)
    train = to_dataset(*make_table(N_TRAIN, 0), shuffle=True)
    xv, yv = make_table(N_VALID, 1)
    valid = to_dataset(xv, yv, shuffle=False)
    model = build_model()
    model.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
                  loss=keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(train, epochs=EPOCHS, validation_data=valid, verbose=2,
              callbacks=[keras.callbacks.EarlyStopping(patience=6), ValidationAUC(valid, yv)])


if __name__ == "__main__":
    main()
