"""Lesion segmentation on 2-D slices with a small U-Net, Keras 3 with the PyTorch backend.

Slices are kept on disk as compressed .npz archives (one per patient group)."""
import os

os.environ["KERAS_BACKEND"] = "torch"

import shutil
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

SIZE = 48
GROUPS = 2
SLICES_PER_GROUP = 1200
TRAIN_SLICES = 800
BATCH = 16


def write_archives(folder: Path):
    rng = np.random.default_rng(3)
    yy, xx = np.mgrid[:SIZE, :SIZE].astype("float32")
    for g in range(GROUPS):
        images = rng.normal(size=(SLICES_PER_GROUP, SIZE, SIZE)).astype("float32") * 0.3
        masks = np.zeros((SLICES_PER_GROUP, SIZE, SIZE), "uint8")
        for i in range(SLICES_PER_GROUP):
            cy, cx = rng.uniform(10, SIZE - 10, 2)
            r = rng.uniform(4, 9)
            blob = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            images[i][blob] += 0.8
            masks[i][blob] = 1
        images = np.round(images * 64) / 64
        np.savez_compressed(folder / f"group{g}.npz", images=images.astype("float16"), masks=masks)


class SliceLoader(keras.utils.PyDataset):
    def __init__(self, folder, batch_size=BATCH, flip=True, **kw):
        super().__init__(**kw)
        self.archives = []
        for p in sorted(Path(folder).glob("*.npz")):
            with np.load(p) as z:
                self.archives.append({k: z[k] for k in z.files})
        self.batch_size = batch_size
        self.flip = flip
        self.rng = np.random.default_rng(11)
        self.per_group = TRAIN_SLICES // batch_size
        self.on_epoch_end()

    def on_epoch_end(self):
        self.perm = [self.rng.permutation(TRAIN_SLICES) for _ in self.archives]

    def __len__(self):
        return self.per_group * len(self.archives)

    def __getitem__(self, index):
        group, k = index % len(self.archives), index // len(self.archives)
        rows = np.sort(self.perm[group][k * self.batch_size : (k + 1) * self.batch_size])
        archive = self.archives[group]
        x = archive["images"][rows].astype("float32")
        y = archive["masks"][rows].astype("float32")
        if self.flip and self.rng.random() < 0.5:
            x, y = x[:, :, ::-1], y[:, :, ::-1]
        return x[..., None], y[..., None]


class DoubleConv(layers.Layer):
    def __init__(self, filters, **kw):
        super().__init__(**kw)
        self.c1 = layers.Conv2D(filters, 3, padding="same", activation="relu")
        self.c2 = layers.Conv2D(filters, 3, padding="same", activation="relu")
        self.norm = layers.GroupNormalization(4)

    def call(self, x):
        return self.norm(self.c2(self.c1(x)))


def unet(base=8):
    inp = keras.Input((SIZE, SIZE, 1))
    d1 = DoubleConv(base)(inp)
    d2 = DoubleConv(base * 2)(layers.MaxPooling2D()(d1))
    mid = DoubleConv(base * 4)(layers.MaxPooling2D()(d2))
    u2 = layers.Concatenate()([layers.UpSampling2D()(mid), d2])
    u2 = DoubleConv(base * 2)(u2)
    u1 = layers.Concatenate()([layers.UpSampling2D()(u2), d1])
    u1 = DoubleConv(base)(u1)
    return keras.Model(inp, layers.Conv2D(1, 1)(u1))


def dice_bce(y, logits):
    p = ops.sigmoid(logits)
    inter = ops.sum(p * y, axis=(1, 2, 3))
    dice = 1 - (2 * inter + 1) / (ops.sum(p, axis=(1, 2, 3)) + ops.sum(y, axis=(1, 2, 3)) + 1)
    bce = ops.mean(ops.binary_crossentropy(y, logits, from_logits=True), axis=(1, 2, 3))
    return dice + bce


class Timer(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.marks = []

    def on_train_batch_begin(self, batch, logs=None):
        self.marks.append(time.perf_counter())


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    tmp = Path(tempfile.mkdtemp(prefix="slices_"))
    try:
        write_archives(tmp)
        train = SliceLoader(tmp)
        model = unet()
        model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=dice_bce)
        timer = Timer()
        history = model.fit(train, epochs=1, verbose=0, callbacks=[timer])
        print("loss per epoch", history.history["loss"])
        print("steps", len(timer.marks), "median ms", 1e3 * np.median(np.diff(timer.marks)))
    finally:
        shutil.rmtree(tmp)
