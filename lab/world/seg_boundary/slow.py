"""Cardiac short-axis segmentation on synthetic slices (background, RV, myocardium, LV)
with a small U-Net and a Dice + boundary loss."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from scipy.ndimage import distance_transform_edt, gaussian_filter

SIZE = 96
CLASSES = 4
N_TRAIN, N_VAL = 320, 48
BATCH = 16
EPOCHS = 8


def make_slices(n, seed):
    """A ring (myocardium) around a disc (LV), with a crescent (RV) at its side."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE].astype("float32")
    images = np.empty((n, SIZE, SIZE, 1), "float32")
    labels = np.zeros((n, SIZE, SIZE), "int64")
    for i in range(n):
        cy, cx = SIZE / 2 + rng.uniform(-10, 10, 2)
        r_lv, wall = rng.uniform(8, 14), rng.uniform(4, 8)
        t = rng.uniform(-0.7, 0.7)
        dist = np.hypot(yy - cy, xx - cx)
        ry, rx = cy - 22 * np.sin(t), cx - 22 * np.cos(t)
        labels[i][((yy - ry) / 18) ** 2 + ((xx - rx) / 14) ** 2 < 1] = 1
        labels[i][dist < r_lv + wall] = 2
        labels[i][dist < r_lv] = 3
        level = np.array([0.3, 0.8, 0.25, 0.9])[labels[i]]
        bias = gaussian_filter(rng.normal(size=(SIZE, SIZE)), 10) * 6
        images[i, ..., 0] = gaussian_filter(level, 0.7) + bias + rng.normal(0, 0.15, (SIZE, SIZE))
    images -= images.mean((1, 2, 3), keepdims=True)
    images /= images.std((1, 2, 3), keepdims=True)
    return images, np.eye(CLASSES, dtype="float32")[labels]


def signed_distance(mask):
    pos = mask.astype(bool)
    if not pos.any():
        return np.zeros(mask.shape, "float32")
    neg = ~pos
    return (distance_transform_edt(neg) * neg
            - (distance_transform_edt(pos) - 1) * pos).astype("float32")


def signed_distance_batch(onehot):
    return np.stack([np.stack([signed_distance(m[..., c]) for c in range(CLASSES)], -1)
                     for m in onehot])


class DiceBoundaryLoss(keras.losses.Loss):
    """(1 - alpha) * soft Dice + alpha * boundary loss; alpha is raised by a callback."""

    def __init__(self, name="dice_boundary"):
        super().__init__(name=name)
        self.alpha = keras.Variable(0.01, trainable=False, name="alpha")

    def call(self, y_true, y_pred):
        inter = tf.reduce_sum(y_true * y_pred, (1, 2))
        total = tf.reduce_sum(y_true, (1, 2)) + tf.reduce_sum(y_pred, (1, 2))
        dice = 1.0 - tf.reduce_mean((2.0 * inter + 1.0) / (total + 1.0), -1)
        dist = tf.numpy_function(signed_distance_batch, [y_true], tf.float32)
        dist = tf.ensure_shape(dist, (None, SIZE, SIZE, CLASSES))
        boundary = tf.reduce_mean(dist * y_pred, (1, 2, 3))
        return (1.0 - self.alpha) * dice + self.alpha * boundary


def pixel_accuracy(y_true, y_pred):
    hit = tf.argmax(y_true, -1) == tf.argmax(y_pred, -1)
    return tf.reduce_mean(tf.cast(hit, tf.float32), (1, 2))


class AlphaRamp(keras.callbacks.Callback):
    def __init__(self, loss, step=0.01, top=0.1):
        super().__init__()
        self.loss, self.step, self.top = loss, step, top

    def on_epoch_end(self, epoch, logs=None):
        self.loss.alpha.assign(min(self.top, 0.01 + self.step * (epoch + 1)))


class StepTimer(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_begin(self, batch, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter() - self.start)

    def on_train_end(self, logs=None):
        print(f"median step {1e3 * np.median(self.times):.1f} ms over {len(self.times)} steps")


def conv(x, filters, strides=1):
    return layers.Conv2D(filters, 3, strides=strides, padding="same", activation="relu",
                         kernel_initializer="he_normal")(x)


def build_unet():
    inp = keras.Input((SIZE, SIZE, 1))
    d1 = conv(conv(inp, 8, strides=2), 12)
    d2 = conv(conv(d1, 24, strides=2), 24)
    mid = conv(conv(d2, 48, strides=2), 48)
    u2 = layers.Concatenate()([layers.UpSampling2D()(mid), d2])
    u1 = layers.Concatenate()([layers.UpSampling2D()(conv(u2, 24)), d1])
    out = layers.Conv2DTranspose(CLASSES, 2, strides=2)(conv(u1, 12))
    return keras.Model(inp, layers.Softmax()(out))


def main():
    keras.utils.set_random_seed(11)
    x_train, y_train = make_slices(N_TRAIN, 1)
    x_val, y_val = make_slices(N_VAL, 2)
    train = (tf.data.Dataset.from_tensor_slices((x_train, y_train))
             .shuffle(N_TRAIN, seed=3).batch(BATCH, drop_remainder=True).prefetch(2))
    val = tf.data.Dataset.from_tensor_slices((x_val, y_val)).batch(BATCH).prefetch(1)

    model = build_unet()
    loss = DiceBoundaryLoss()
    model.compile(keras.optimizers.Adam(3e-3), loss=loss, metrics=[pixel_accuracy])
    hist = model.fit(train, validation_data=val, validation_freq=4, epochs=EPOCHS, verbose=2,
                     callbacks=[AlphaRamp(loss), StepTimer(), keras.callbacks.TerminateOnNaN()])
    print("val accuracy", [round(v, 3) for v in hist.history["val_pixel_accuracy"]])


if __name__ == "__main__":
    main()
