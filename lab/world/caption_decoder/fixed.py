"""Caption generator on pre-extracted image features (show-and-tell style, teacher forcing)."""
import os
import time
from dataclasses import dataclass

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import layers, ops


@dataclass
class Config:
    images: int = 640
    captions_per_image: int = 2
    feature_dim: int = 512
    vocab: int = 6000
    max_len: int = 20
    units: int = 192
    embed: int = 128
    deep: int = 320
    batch: int = 8
    epochs: int = 1
    lr: float = 2e-3
    seed: int = 21


def synthetic_corpus(cfg):
    """Every image has a few topics; the words of its captions come from their word lists."""
    rng = np.random.default_rng(cfg.seed)
    topics = 40
    word_lists = rng.integers(4, cfg.vocab, (topics, 60))
    directions = rng.normal(size=(topics, cfg.feature_dim)).astype("float32")
    features = np.empty((cfg.images, cfg.feature_dim), "float32")
    captions = np.zeros((cfg.images * cfg.captions_per_image, cfg.max_len + 1), "int32")
    for i in range(cfg.images):
        chosen = rng.choice(topics, 3, replace=False)
        features[i] = directions[chosen].sum(0) + 0.3 * rng.normal(size=cfg.feature_dim)
        for c in range(cfg.captions_per_image):
            n = rng.integers(cfg.max_len - 8, cfg.max_len)
            ranks = np.minimum(rng.geometric(0.12, n) - 1, 59)
            words = word_lists[rng.choice(chosen, n), ranks]
            captions[i * cfg.captions_per_image + c, : n + 2] = np.r_[1, words, 2][: cfg.max_len + 1]
    return features, captions


class CaptionBatches(keras.utils.PyDataset):
    def __init__(self, features, captions, cfg, **kwargs):
        super().__init__(**kwargs)
        self.features, self.captions, self.cfg = features, captions, cfg
        self.rng = np.random.default_rng(cfg.seed)
        self.order = self.rng.permutation(len(captions))

    def __len__(self):
        return len(self.captions) // self.cfg.batch

    def __getitem__(self, i):
        rows = self.order[i * self.cfg.batch:(i + 1) * self.cfg.batch]
        caps = self.captions[rows]
        feats = self.features[rows // self.cfg.captions_per_image]
        return {"features": feats, "words_in": caps[:, :-1]}, caps[:, 1:]

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.captions))


class Captioner(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.to_state = layers.Dense(cfg.units, activation="tanh")
        self.embed = layers.Embedding(cfg.vocab, cfg.embed)
        self.drop = layers.Dropout(0.2)
        self.decoder = layers.GRU(cfg.units, return_sequences=True)
        self.deep = layers.Dense(cfg.deep, activation="tanh")
        self.words = layers.Dense(cfg.vocab)

    def call(self, inputs, training=False):
        start = self.to_state(inputs["features"])
        x = self.drop(self.embed(inputs["words_in"]), training=training)
        hidden = self.decoder(x, initial_state=[start], training=training)
        return self.words(self.deep(hidden))


def masked_crossentropy(y_true, logits):
    mask = ops.cast(ops.not_equal(y_true, 0), "float32")
    ce = ops.sparse_categorical_crossentropy(y_true, logits, from_logits=True)
    return ops.sum(ce * mask, -1) / ops.sum(mask, -1)


def word_accuracy(y_true, logits):
    mask = ops.cast(ops.not_equal(y_true, 0), "float32")
    hit = ops.cast(ops.equal(ops.argmax(logits, -1), ops.cast(y_true, "int64")), "float32")
    return ops.sum(hit * mask, -1) / ops.sum(mask, -1)


class StepClock(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ms = []

    def on_train_batch_begin(self, batch, logs=None):
        self.t0 = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.ms.append((time.perf_counter() - self.t0) * 1e3)


def main(cfg=Config()):
    keras.utils.set_random_seed(cfg.seed)
    data = CaptionBatches(*synthetic_corpus(cfg), cfg)
    schedule = keras.optimizers.schedules.CosineDecay(cfg.lr, cfg.epochs * len(data))
    model = Captioner(cfg)
    model.compile(keras.optimizers.Adam(schedule, global_clipnorm=5.0),
                  loss=masked_crossentropy, metrics=[word_accuracy])
    clock = StepClock()
    model.fit(data, epochs=cfg.epochs, shuffle=False, verbose=2,
              callbacks=[clock, keras.callbacks.TerminateOnNaN()])
    print(f"{len(clock.ms)} steps, median {np.median(clock.ms):.1f} ms")


if __name__ == "__main__":
    main()
