"""Small encoder-decoder that marks cracks in synthetic concrete images."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE = 64
BATCH = 16
IMAGES = 640
EPOCHS = 8


def draw(rng, n):
    images = rng.normal(0.5, 0.08, (n, SIZE, SIZE)).astype("float32")
    masks = np.zeros((n, SIZE, SIZE), "float32")
    for k in range(n):
        x, y = rng.uniform(0, SIZE, 2)
        heading = rng.uniform(0, 6.28)
        for _ in range(90):
            heading += rng.normal(0, 0.25)
            x, y = (x + np.cos(heading)) % SIZE, (y + np.sin(heading)) % SIZE
            masks[k, int(y), int(x)] = 1
    images -= masks * rng.uniform(0.1, 0.35, (n, 1, 1)).astype("float32")
    return images[..., None], masks[..., None]


def make_dataset(images, masks, training):
    ds = tf.data.Dataset.from_tensor_slices((images, masks))
    if training:
        ds = ds.shuffle(len(images), seed=4)
    return ds.batch(BATCH, drop_remainder=True).prefetch(2)


def conv(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def build_model():
    inp = keras.Input((SIZE, SIZE, 1))
    a = conv(inp, 12)
    b = conv(layers.MaxPooling2D()(a), 24)
    c = conv(layers.MaxPooling2D()(b), 32)
    b = conv(layers.Concatenate()([layers.UpSampling2D()(c), b]), 24)
    a = conv(layers.Concatenate()([layers.UpSampling2D()(b), a]), 12)
    out = layers.Conv2D(1, 1, activation="sigmoid")(a)
    return keras.Model(inp, out)


def balanced_loss(y_true, y_pred):
    bce = keras.losses.binary_crossentropy(y_true, y_pred)
    inter = tf.reduce_sum(y_true * y_pred, (1, 2, 3))
    total = tf.reduce_sum(y_true + y_pred, (1, 2, 3))
    return tf.reduce_mean(bce, (1, 2)) + 1 - 2 * inter / (total + 1.0)


def ranking_metric():
    """Area under precision-recall, with cuts dense near 0 and 1."""
    cuts = 1 / (1 + np.exp(-np.linspace(-7, 7, 100)))
    return keras.metrics.AUC(curve="PR", name="pr_auc", thresholds=cuts.tolist())


class Progress(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.step, self.start = 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % 20 == 0:
            print(f"step {self.step:4d} loss {logs['loss']:.4f} "
                  f"time {time.time() - self.start:.2f}s", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        shown = " ".join(f"{k} {v:.4f}" for k, v in logs.items())
        print(f"epoch {epoch} {shown}", flush=True)


def main():
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(4)
    train = make_dataset(*draw(rng, IMAGES), training=True)
    val = make_dataset(*draw(rng, 64), training=False)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=balanced_loss,
    )
    model.fit(train, epochs=EPOCHS, verbose=0, callbacks=[Progress()])
    model.compile(loss=balanced_loss,
                  metrics=[ranking_metric()])
    result = model.evaluate(val, verbose=0, return_dict=True)
    print({k: round(v, 4) for k, v in result.items()})


if __name__ == "__main__":
    main()
