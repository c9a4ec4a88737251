"""BERT-style masked token pretraining on protein-like sequences of k-mers, fed by a Python generator."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers, ops

VOCAB = 6000
MASK_ID = 1
SEQ_LEN = 64
N_MASK = 10
DIM = 96
HEADS = 4
BATCH = 24
STEPS_PER_EPOCH = 40
EPOCHS = 2


def markov_corpus(n, rng):
    successor = rng.integers(2, VOCAB, size=(VOCAB, 3))
    zipf = np.minimum(rng.zipf(1.3, size=n) + 1, VOCAB - 1)
    seqs = np.empty((n, SEQ_LEN), "int32")
    seqs[:, 0] = zipf
    for t in range(1, SEQ_LEN):
        pick = rng.choice(3, size=n, p=[0.8, 0.15, 0.05])
        seqs[:, t] = successor[seqs[:, t - 1] % 200, pick]
    return seqs


def masked_batches(corpus, rng):
    while True:
        tokens = corpus[rng.integers(0, len(corpus), BATCH)]
        positions = np.argsort(rng.random(tokens.shape), axis=1)[:, :N_MASK].astype("int32")
        inputs = tokens.copy()
        np.put_along_axis(inputs, positions, MASK_ID, axis=1)
        weights = np.zeros(tokens.shape, "float32")
        np.put_along_axis(weights, positions, 1.0, axis=1)
        yield inputs, tokens, weights


@keras.saving.register_keras_serializable()
class TokenAndPosition(layers.Layer):
    def __init__(self, vocab, dim, length, **kw):
        super().__init__(**kw)
        self.tokens = layers.Embedding(vocab, dim, embeddings_initializer=keras.initializers.RandomNormal(stddev=0.05))
        self.positions = layers.Embedding(length, dim)
        self.length = length

    def call(self, ids):
        return self.tokens(ids) + self.positions(ops.arange(self.length))


@keras.saving.register_keras_serializable()
class VocabularyHead(layers.Layer):
    """Transform + projection to token scores."""

    def __init__(self, vocab, dim, **kw):
        super().__init__(**kw)
        self.transform = layers.Dense(dim, activation="gelu")
        self.norm = layers.LayerNormalization()
        self.project = layers.Dense(vocab)

    def call(self, hidden):
        return self.project(self.norm(self.transform(hidden)))


def encoder_block(x):
    h = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(HEADS, DIM // HEADS)(h, h)
    h = layers.LayerNormalization()(x)
    h = layers.Dense(3 * DIM, activation="gelu")(h)
    return x + layers.Dense(DIM)(h)


def build():
    ids = keras.Input((SEQ_LEN,), dtype="int32")
    x = TokenAndPosition(VOCAB, DIM, SEQ_LEN)(ids)
    for _ in range(2):
        x = encoder_block(x)
    scores = VocabularyHead(VOCAB, DIM)(x)
    return keras.Model(ids, scores)


class Timer(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())


if __name__ == "__main__":
    keras.utils.set_random_seed(17)
    rng = np.random.default_rng(17)
    corpus = markov_corpus(5000, rng)
    model = build()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight"),
    )
    timer = Timer()
    model.fit(
        masked_batches(corpus, rng),
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=EPOCHS,
        verbose=2,
        callbacks=[timer],
    )
    gaps = np.diff(timer.ends) * 1e3
    print(f"{len(timer.ends)} steps, median {np.median(gaps):.1f} ms/step")
