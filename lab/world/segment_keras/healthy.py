"""Segment bright cells, small U-Net, Keras fit with a PyDataset."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)
SIZE, BATCH, EPOCHS = 48, 16, 4


def cells(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    img = np.zeros((n, SIZE, SIZE), np.float32)
    for _ in range(6):
        cy, cx = rng.uniform(4, SIZE - 4, (2, n, 1, 1))
        ry, rx = rng.uniform(3, 7, (2, n, 1, 1))
        img = np.maximum(
            img,
            (((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1) * rng.uniform(0.5, 1, (n, 1, 1)),
        )
    mask = (img > 0).astype(np.float32)
    noisy = img + rng.normal(0, 0.25, img.shape) + 0.2 * np.sin(xx / 9.0)
    return noisy.astype(np.float32)[..., None], mask[..., None]


class CellData(keras.utils.PyDataset):
    def __init__(self, n, seed, augment):
        super().__init__(workers=1)
        self.x, self.y = cells(n, seed)
        self.augment = augment
        self.rng = np.random.default_rng(seed + 100)
        self.order = self.rng.permutation(n)

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, i):
        idx = self.order[i * BATCH : (i + 1) * BATCH]
        x, y = self.x[idx], self.y[idx]
        if self.augment:
            flip = self.rng.random(len(idx)) < 0.5
            x[flip], y[flip] = x[flip, :, ::-1], y[flip, :, ::-1]
            x *= self.rng.uniform(0.8, 1.2, (len(idx), 1, 1, 1)).astype(np.float32)
        return x, y

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.x))


def block(x, f):
    x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(f, 3, padding="same", activation="relu")(x)


inp = keras.Input((SIZE, SIZE, 1))
d1 = block(inp, 8)
d2 = block(layers.MaxPooling2D()(d1), 16)
m = block(layers.MaxPooling2D()(d2), 32)
u2 = block(layers.Concatenate()([layers.UpSampling2D()(m), d2]), 16)
u1 = block(layers.Concatenate()([layers.UpSampling2D()(u2), d1]), 8)
model = keras.Model(inp, layers.Conv2D(1, 1)(u1))
model.compile(
    keras.optimizers.Adam(2e-3),
    keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryIoU(target_class_ids=[1], threshold=0.0, name="iou")],
)


class Timer(keras.callbacks.Callback):
    spent, n = 0.0, 0

    def on_train_batch_begin(self, batch, logs=None):
        if self.n == 1:
            self.t0 = time.time()
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        print(
            "epoch %d %s  %.2f ms/step (validation included)"
            % (
                epoch,
                {k: round(v, 4) for k, v in logs.items()},
                (time.time() - self.t0) / (self.n - 1) * 1000,
            ),
            flush=True,
        )


model.fit(
    CellData(1600, 0, True),
    validation_data=CellData(160, 1, False),
    epochs=EPOCHS,
    verbose=0,
    callbacks=[Timer()],
)
