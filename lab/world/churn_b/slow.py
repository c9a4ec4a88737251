"""Customer churn: residual tabular network with focal loss and mixup, trained with fit."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

STEPS = int(os.environ.get("STEPS", "300"))
N_ROWS, N_FEATS, BATCH = 25_600, 64, 1024


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, N_FEATS)).astype("float32")
    w = np.random.default_rng(7).standard_normal((N_FEATS, 3)).astype("float32") / 8
    s = np.tanh(x @ w[:, 0]) * 2 + (x @ w[:, 1]) * (x @ w[:, 2]) * 2 - 1.0
    y = (rng.random(n) < 1 / (1 + np.exp(-3 * s))).astype("float32")
    return x, y[:, None]


class ChurnModel(keras.Model):
    """Mixes pairs of rows inside the training step."""

    def train_step(self, data):
        x, y = data
        lam = tf.random.uniform((tf.shape(x)[0], 1), 0.8, 1.0)
        perm = tf.random.shuffle(tf.range(tf.shape(x)[0]))
        x_mix = lam * x + (1 - lam) * tf.gather(x, perm)
        y_mix = lam * y + (1 - lam) * tf.gather(y, perm)
        with tf.GradientTape() as tape:
            pred = self(x_mix, training=True)
            loss = self.compute_loss(x=x_mix, y=y_mix, y_pred=pred)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, pred)
        return {m.name: m.result() for m in self.metrics}


def focal_loss(y, p):
    p = tf.clip_by_value(p, 1e-6, 1 - 1e-6)
    pos = -y * (1 - p) ** 2 * tf.math.log(p)
    neg = -(1 - y) * p ** 2 * tf.math.log(1 - p)
    return tf.reduce_mean(pos + neg, axis=-1)


def residual_block(h, width):
    skip = h
    h = layers.LayerNormalization()(h)
    h = layers.Dense(2 * width, activation="gelu")(h)
    h = layers.Dense(width)(h)
    return layers.Add()([skip, h])


def build():
    inp = keras.Input((N_FEATS,))
    h = layers.Dense(192)(inp)
    for _ in range(2):
        h = residual_block(h, 192)
    h = layers.LayerNormalization()(h)
    return ChurnModel(inp, layers.Dense(1, activation="sigmoid")(h))


class StepPrinter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % 50 == 0 or self.seen == STEPS:
            print(f"step {self.seen} loss {float(logs['loss']):.4f} auc {float(logs['auc']):.3f}", flush=True)


def main():
    keras.utils.set_random_seed(0)
    x, y = make_table(N_ROWS, 1)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, clipnorm=1.0),
        loss=focal_loss,
        metrics=[keras.metrics.AUC(name="auc", num_thresholds=50)],
        run_eagerly=True,
    )
    ds = (tf.data.Dataset.from_tensor_slices((x, y))
          .shuffle(4096, seed=3).repeat().batch(BATCH).prefetch(2))
    per_epoch = min(100, STEPS)
    model.fit(ds, steps_per_epoch=per_epoch, epochs=max(1, STEPS // per_epoch),
              verbose=0, callbacks=[StepPrinter()])

    xv, yv = make_table(2048, 5)
    pred = model.predict(xv, batch_size=1024, verbose=0)
    print(f"valid accuracy {np.mean((pred > 0.5) == (yv > 0.5)):.3f}")


if __name__ == "__main__":
    main()
