"""Part-of-speech style sequence tagging: BiGRU + character CNN, Keras 3 on PyTorch."""
import os

os.environ["KERAS_BACKEND"] = "torch"

import tempfile
import time

import keras
import numpy as np
import torch
from keras import layers, ops

VOCAB, CHARS, TAGS = 3000, 40, 12
MAX_WORDS, MAX_CHARS = 20, 8


def make_corpus(n, seed):
    rng = np.random.default_rng(seed)
    lex = np.random.default_rng(99)
    spelling = lex.integers(1, CHARS, (VOCAB, MAX_CHARS)).astype("int64")
    spelling[np.arange(MAX_CHARS)[None] >= lex.integers(2, MAX_CHARS + 1, VOCAB)[:, None]] = 0
    tag_of = spelling[:, 0] % TAGS
    words = rng.integers(1, VOCAB, (n, MAX_WORDS))
    lengths = rng.integers(8, MAX_WORDS + 1, n)
    mask = np.arange(MAX_WORDS)[None] < lengths[:, None]
    tags = tag_of[words]
    shifted = np.roll(words, 1, axis=1) % 5 == 0
    tags = np.where(shifted, (tags + 1) % TAGS, tags)
    return np.where(mask, words, 0).astype("int64"), spelling, tags.astype("int64"), mask.astype("float32")


class TaggedSentences(keras.utils.PyDataset):
    def __init__(self, corpus, batch_size, shuffle=True, **kw):
        super().__init__(**kw)
        self.words, self.spelling, self.tags, self.mask = corpus
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.rng = np.random.default_rng(0)
        self.order = np.arange(len(self.words))
        self.on_epoch_end()

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.order)

    def __len__(self):
        return len(self.words) // self.batch_size

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size : (i + 1) * self.batch_size]
        words = self.words[rows]
        return {"words": words, "chars": self.spelling[words]}, self.tags[rows], self.mask[rows]


class CharEncoder(layers.Layer):
    def __init__(self, dim, **kw):
        super().__init__(**kw)
        self.emb = layers.Embedding(CHARS, 16)
        self.conv = layers.Conv1D(dim, 3, padding="same", activation="relu")

    def call(self, chars):
        b, w, c = chars.shape
        x = self.emb(ops.reshape(chars, (-1, c)))
        x = ops.max(self.conv(x), axis=1)
        return ops.reshape(x, (-1, w, x.shape[-1]))


class Tagger(keras.Model):
    def __init__(self):
        super().__init__()
        self.emb = layers.Embedding(VOCAB, 48)
        self.chars = CharEncoder(24)
        self.gru = layers.Bidirectional(layers.GRU(32, return_sequences=True))
        self.drop = layers.Dropout(0.1)
        self.out = layers.Dense(TAGS)

    def call(self, inputs, training=False):
        x = ops.concatenate([self.emb(inputs["words"]), self.chars(inputs["chars"])], axis=-1)
        return self.out(self.drop(self.gru(x), training=training))

    def train_step(self, data):
        x, y, mask = data
        self.zero_grad()
        logits = self(x, training=True)
        loss = self.compute_loss(x=x, y=y, y_pred=logits, sample_weight=mask)
        loss.backward()
        weights = self.trainable_weights
        grads = [w.value.grad for w in weights]
        with torch.no_grad():
            norm = torch.sqrt(sum((g * g).sum() for g in grads))
            scale = torch.clamp(5.0 / (norm + 1e-6), max=1.0)
            self.optimizer.apply([g * scale for g in grads], weights)
            for m in self.metrics:
                if m.name == "loss":
                    m.update_state(loss)
                else:
                    m.update_state(y, logits, sample_weight=mask)
        return {m.name: m.result() for m in self.metrics}


class Stopwatch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.beats = []

    def on_train_batch_begin(self, batch, logs=None):
        self.beats.append(time.perf_counter())


def main():
    keras.utils.set_random_seed(3)
    train = TaggedSentences(make_corpus(1920, 1), 32)
    valid = TaggedSentences(make_corpus(256, 2), 64, shuffle=False)
    model = Tagger()
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
    )
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        keep = keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "best.weights.h5"), monitor="val_loss", save_best_only=True, save_weights_only=True
        )
        hist = model.fit(train, validation_data=valid, epochs=2, verbose=0, callbacks=[keep, watch])
    print({k: [round(float(x), 3) for x in v] for k, v in hist.history.items()})
    print("steps", len(watch.beats), "median ms", 1e3 * np.median(np.diff(watch.beats)))


if __name__ == "__main__":
    main()
