"""Multi-label chromatin profile prediction from DNA sequence (DeepSEA-like), Keras."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf

N_TRACKS = 40
SEQ_LEN = 200


def simulate(n, seed):
    """Random sequences; each track fires when its two motifs occur."""
    rng = np.random.default_rng(seed)
    motifs = np.random.default_rng(99).integers(0, 4, (N_TRACKS // 2, 7))
    codes = rng.integers(0, 4, (n, SEQ_LEN))
    labels = np.zeros((n, N_TRACKS), np.float32)
    for i in range(n):
        for m in rng.choice(len(motifs), 4, replace=False):
            at = rng.integers(0, SEQ_LEN - 7)
            codes[i, at:at + 7] = motifs[m]
            labels[i, 2 * m] = 1.0
            labels[i, 2 * m + 1] = float(at < SEQ_LEN // 2)
    return codes.astype(np.uint8), labels


def pipeline(codes, labels, batch, training):
    ds = tf.data.Dataset.from_tensor_slices((codes, labels))
    if training:
        ds = ds.shuffle(len(codes), seed=0)
    ds = ds.batch(batch, drop_remainder=training)

    def encode(c, y):
        x = tf.one_hot(tf.cast(c, tf.int32), 4)
        if training:
            flip = tf.random.uniform([]) < 0.5
            x = tf.cond(flip, lambda: x[:, :, ::-1], lambda: x)
        return x, y

    return ds.map(encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def residual(x, filters, dilation):
    y = keras.layers.BatchNormalization()(x)
    y = keras.layers.Activation("gelu")(y)
    y = keras.layers.Conv1D(filters, 3, padding="same", dilation_rate=dilation)(y)
    return keras.layers.Add()([x, y])


def build_model():
    seq = keras.Input((SEQ_LEN, 4), name="sequence")
    x = keras.layers.Conv1D(32, 9, padding="same")(seq)
    x = keras.layers.MaxPooling1D(4)(x)
    for dilation in (1, 2):
        x = residual(x, 32, dilation)
    x = keras.layers.GlobalMaxPooling1D()(x)
    x = keras.layers.Dropout(0.2)(x)
    x = keras.layers.Dense(128, activation="relu")(x)
    out = keras.layers.Dense(N_TRACKS, activation="sigmoid", name="tracks")(x)
    return keras.Model(seq, out, name="tracks")


class Timing(keras.callbacks.Callback):
    def __init__(self, steps):
        super().__init__()
        self.steps, self.epochs = steps, []

    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.perf_counter()

    def on_test_begin(self, logs=None):
        self.epochs.append(time.perf_counter() - self.t0)


class ValidationAUROC(keras.callbacks.Callback):
    """Rank-based area under the ROC curve, averaged over tracks."""

    def __init__(self, ds, labels):
        super().__init__()
        self.ds, self.labels = ds, labels

    def on_epoch_end(self, epoch, logs=None):
        scores = self.model.predict(self.ds, verbose=0)
        y = self.labels
        ranks = np.argsort(np.argsort(scores, axis=0), axis=0) + 1.0
        pos, neg = y.sum(0), (1 - y).sum(0)
        auroc = ((ranks * y).sum(0) - pos * (pos + 1) / 2) / np.maximum(pos * neg, 1)
        print(f"epoch {epoch + 1} val auroc {auroc.mean():.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n-train", type=int, default=3200)
    ap.add_argument("--n-val", type=int, default=512)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    keras.utils.set_random_seed(11)
    train_x, train_y = simulate(args.n_train, 0)
    val_x, val_y = simulate(args.n_val, 1)
    train = pipeline(train_x, train_y, args.batch_size, True)
    val = pipeline(val_x, val_y, args.batch_size, False)
    steps = args.n_train // args.batch_size

    model = build_model()
    schedule = keras.optimizers.schedules.CosineDecay(args.lr, steps * args.epochs)
    model.compile(
        optimizer=keras.optimizers.AdamW(schedule, weight_decay=1e-4),
        loss="binary_crossentropy",
        metrics=[keras.metrics.BinaryAccuracy(name="acc")],
    )
    timing = Timing(steps)
    model.fit(train, validation_data=val, epochs=args.epochs, verbose=2,
              callbacks=[timing, ValidationAUROC(val, val_y), keras.callbacks.TerminateOnNaN()])
    print(f"{1000 * np.median(timing.epochs[1:]) / steps:.2f} ms/step")


if __name__ == "__main__":
    main()
