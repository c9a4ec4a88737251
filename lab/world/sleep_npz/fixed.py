"""Sleep stage scoring from two-channel EEG epochs; nights stored as one .npz archive each."""
from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers, ops

STAGES = 5
SAMPLES = 1000
CHANNELS = 2


def record_nights(folder: Path, nights: int, epochs_per_night: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLES) / 100.0
    bands = np.array([1.0, 3.0, 6.0, 10.0, 20.0])
    for n in range(nights):
        stage = np.minimum(np.abs(np.cumsum(rng.integers(-1, 2, epochs_per_night))) % STAGES, STAGES - 1)
        phase = rng.uniform(0, 2 * np.pi, (epochs_per_night, 1, CHANNELS))
        wave = np.sin(2 * np.pi * bands[stage][:, None, None] * t[None, :, None] + phase)
        eeg = 30 * wave + rng.normal(0, 25, wave.shape)
        np.savez_compressed(folder / f"night{n:02d}.npz", eeg=eeg.astype(np.int16), stage=stage.astype(np.int32))


class NightSequence(keras.utils.PyDataset):
    """Each batch is a contiguous run of epochs out of one night; the order of batches is random."""

    def __init__(self, folder: Path, batch_size: int, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.files = sorted(folder.glob("night*.npz"))
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.index = []
        self.nights = {}
        for f in self.files:
            with np.load(f) as z:
                self.nights[f] = (z["eeg"], z["stage"])
            count = len(self.nights[f][1])
            for start in range(0, count - batch_size + 1, batch_size):
                self.index.append((f, start))
        self.on_epoch_end()

    def __len__(self):
        return len(self.index)

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.index))

    def __getitem__(self, i):
        path, start = self.index[self.order[i]]
        stop = start + self.batch_size
        eeg, stage = self.nights[path]
        return eeg[start:stop].astype("float32") / 40.0, stage[start:stop]


class FocalLoss(keras.losses.Loss):
    def __init__(self, gamma: float = 1.5, name: str = "focal"):
        super().__init__(name=name)
        self.gamma = gamma

    def call(self, y_true, y_pred):
        y_true = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        logp = ops.log_softmax(y_pred)
        picked = ops.sum(logp * ops.one_hot(y_true, STAGES), axis=-1)
        return -ops.power(1.0 - ops.exp(picked), self.gamma) * picked


def make_model() -> keras.Model:
    x = inp = keras.Input((SAMPLES, CHANNELS))
    for width, kernel, stride in [(16, 25, 4), (32, 9, 2), (48, 7, 2)]:
        x = layers.Conv1D(width, kernel, strides=stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inp, layers.Dense(STAGES)(x))


class Throughput(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.stamps = []

    def on_train_batch_end(self, batch, logs=None):
        self.stamps.append(time.perf_counter())

    def on_train_end(self, logs=None):
        gaps = np.diff(self.stamps) * 1e3
        print(f"steps {len(self.stamps)}  median {np.median(gaps):.1f} ms  mean {gaps.mean():.1f} ms")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--nights", type=int, default=6)
    ap.add_argument("--per-night", type=int, default=1440)
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--epochs", type=int, default=1)
    args = ap.parse_args()

    keras.utils.set_random_seed(5)
    work = Path(tempfile.mkdtemp(prefix="nights_"))
    try:
        record_nights(work, args.nights, args.per_night, seed=5)
        data = NightSequence(work, args.batch_size)
        model = make_model()
        model.compile(optimizer=keras.optimizers.Adam(2e-3), loss=FocalLoss(), metrics=["accuracy"])
        model.fit(data, epochs=args.epochs, verbose=2, shuffle=False, callbacks=[Throughput()])
    finally:
        shutil.rmtree(work, ignore_errors=True)
