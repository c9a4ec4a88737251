"""Multi-target tabular classification (assay panel) with Keras fit."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

N_FEATURES = 100
N_TARGETS = 160
N_TRAIN = 25600
N_VALID = 2048
BATCH = 256
EPOCHS = 22


def make_table(n, weights, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_FEATURES)).astype("float32")
    logits = np.tanh(x @ weights[0]) @ weights[1] - 1.0
    y = (logits + rng.logistic(size=logits.shape) > 0).astype("float32")
    return x, y


def roc_auc(y_true, y_score):
    """Mean ROC AUC over the target columns (ties get the mean rank)."""
    scores = []
    for k in range(y_true.shape[1]):
        pos = y_true[:, k] > 0.5
        n_pos = pos.sum()
        n_neg = len(pos) - n_pos
        if n_pos == 0 or n_neg == 0:
            continue
        _, inverse, counts = np.unique(y_score[:, k], return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
        scores.append((ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))
    return np.float32(np.mean(scores))


class ValidationAUC(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def on_epoch_end(self, epoch, logs=None):
        scores = self.model.predict(self.x, batch_size=N_VALID, verbose=0)
        print(f"  val_auc {roc_auc(self.y, scores):.4f}")


def build_model():
    inputs = keras.Input((N_FEATURES,))
    x = layers.BatchNormalization()(inputs)
    for width in (160, 96):
        x = layers.Dense(width, activation="relu")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Dropout(0.3)(x)
    return keras.Model(inputs, layers.Dense(N_TARGETS, activation="sigmoid")(x))


def main():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(N_FEATURES, 32)) * 0.2, rng.normal(size=(32, N_TARGETS))
    x_train, y_train = make_table(N_TRAIN, weights, 0)
    x_valid, y_valid = make_table(N_VALID, weights, 1)

    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="binary_crossentropy",
        jit_compile=False,
    )
    callbacks = [
        keras.callbacks.ReduceLROnPlateau(patience=4, factor=0.5),
        ValidationAUC(x_valid, y_valid),
    ]
    model.fit(
        x_train, y_train,
        batch_size=BATCH, epochs=EPOCHS,
        validation_data=(x_valid, y_valid), validation_batch_size=N_VALID,
        callbacks=callbacks, verbose=2,
    )


if __name__ == "__main__":
    main()
