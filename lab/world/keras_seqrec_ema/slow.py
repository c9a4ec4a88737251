# Next-item recommendation (SASRec-like) in Keras 3 / JAX, evaluated with Polyak-averaged weights.
import os

os.environ["KERAS_BACKEND"] = "jax"

import argparse
import time

import keras
import numpy as np
from keras import layers, ops


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--items", type=int, default=30000)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--length", type=int, default=24)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--negatives", type=int, default=20)
    p.add_argument("--decay", type=float, default=0.99)
    return p.parse_args([])


class Sessions(keras.utils.PyDataset):
    """Click sessions: every user walks around one of 50 item clusters."""

    def __init__(self, n_sessions, cfg, seed=0):
        super().__init__()
        self.cfg = cfg
        rng = np.random.default_rng(seed)
        cluster = rng.integers(0, 50, n_sessions)
        width = cfg.items // 50
        offs = np.minimum(rng.zipf(1.4, (n_sessions, cfg.length + 1)), width) - 1
        self.seq = (cluster[:, None] * width + offs).astype("int32")
        self.rng = rng
        self.order = rng.permutation(n_sessions)

    def __len__(self):
        return self.cfg.steps

    def __getitem__(self, i):
        b = self.cfg.batch
        rows = self.seq[self.order[i * b : (i + 1) * b]]
        neg = self.rng.integers(0, self.cfg.items, (b, self.cfg.length, self.cfg.negatives), dtype="int32")
        cand = np.concatenate([rows[:, 1:, None], neg], axis=-1)
        return (rows[:, :-1], cand), np.zeros(rows[:, 1:].shape, "int32")

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


class Block(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = layers.MultiHeadAttention(heads, dim // heads)
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.f1, self.f2 = layers.Dense(dim * 2, activation="gelu"), layers.Dense(dim)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, use_causal_mask=True)
        return x + self.f2(self.f1(self.n2(x)))


class SASRec(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.item = layers.Embedding(cfg.items, cfg.dim)
        self.pos = layers.Embedding(cfg.length, cfg.dim)
        self.blocks = [Block(cfg.dim, 2) for _ in range(2)]
        self.norm = layers.LayerNormalization()

    def call(self, inputs):
        history, cand = inputs
        x = self.item(history) + self.pos(ops.arange(history.shape[1]))
        for blk in self.blocks:
            x = blk(x)
        return ops.einsum("bld,blkd->blk", self.norm(x), self.item(cand))


class PolyakAverage(keras.callbacks.Callback):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay
        self.avg = None

    def on_train_batch_end(self, batch, logs=None):
        now = self.model.get_weights()
        if self.avg is None:
            self.avg = [w.copy() for w in now]
        else:
            self.avg = [self.decay * a + (1.0 - self.decay) * w for a, w in zip(self.avg, now)]

    def on_train_end(self, logs=None):
        self.model.set_weights(self.avg)


class Clock(keras.callbacks.Callback):
    t = []

    def on_train_batch_begin(self, batch, logs=None):
        self.t.append(time.perf_counter())


def main():
    cfg = parse()
    keras.utils.set_random_seed(0)
    train = Sessions(cfg.steps * cfg.batch, cfg, seed=0)
    test = Sessions(cfg.steps * cfg.batch, cfg, seed=1)
    model = SASRec(cfg)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    clock = Clock()
    hist = model.fit(train, epochs=cfg.epochs, verbose=0, callbacks=[PolyakAverage(cfg.decay), clock])
    scores = model.predict_on_batch(test[0][0])
    print("loss", hist.history["loss"], "hit@1", float((scores.argmax(-1) == 0).mean()))
    print("steps %d median ms/step %.1f" % (len(clock.t), 1e3 * np.median(np.diff(clock.t))))


if __name__ == "__main__":
    main()
