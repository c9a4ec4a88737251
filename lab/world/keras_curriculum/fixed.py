"""Text classification with a sequence-length curriculum (transformer encoder, Keras)."""
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Settings:
    vocab: int = 2000
    max_len: int = 64
    dim: int = 48
    heads: int = 4
    blocks: int = 2
    batch: int = 32
    n_train: int = 800
    rounds: int = 5
    peak_lr: float = 1.5e-3
    warmup_rounds: int = 1


def corpus(cfg, n, seed):
    """Token sequences in which the order of two cue words decides the class."""
    rng = np.random.default_rng(seed)
    ranks = 1.0 / np.arange(1, cfg.vocab - 9)
    tokens = rng.choice(np.arange(10, cfg.vocab), (n, cfg.max_len), p=ranks / ranks.sum())
    labels = rng.integers(0, 3, n)
    lengths = rng.integers(16, cfg.max_len + 1, n)
    for i in range(n):
        a, b = np.sort(rng.choice(lengths[i], 2, replace=False))
        cue = [(3, 4), (4, 3), (5, 5)][labels[i]]
        tokens[i, a], tokens[i, b] = cue
        tokens[i, lengths[i]:] = 0
    return tokens.astype(np.int32), labels.astype(np.int32), lengths


class TokenAndPosition(layers.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.token = layers.Embedding(cfg.vocab, cfg.dim)
        self.position = layers.Embedding(cfg.max_len, cfg.dim)
        self.max_len = cfg.max_len

    def call(self, x):
        return self.token(x) + self.position(tf.range(self.max_len))


def encoder_block(x, mask, cfg):
    y = layers.LayerNormalization()(x)
    y = layers.MultiHeadAttention(cfg.heads, cfg.dim // cfg.heads, dropout=0.1)(y, y, attention_mask=mask)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization()(x)
    y = layers.Dense(2 * cfg.dim, activation="gelu")(y)
    return layers.Add()([x, layers.Dense(cfg.dim)(y)])


def build_model(cfg):
    ids = keras.Input((cfg.max_len,), dtype="int32")
    mask = layers.Lambda(lambda t: tf.not_equal(t, 0)[:, None, :], output_shape=(1, cfg.max_len))(ids)
    x = TokenAndPosition(cfg)(ids)
    for _ in range(cfg.blocks):
        x = encoder_block(x, mask, cfg)
    x = layers.LayerNormalization()(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dropout(0.1)(x)
    return keras.Model(ids, layers.Dense(3)(x))


def lr_for_round(cfg, r):
    if r < cfg.warmup_rounds:
        return cfg.peak_lr * (r + 1) / cfg.warmup_rounds
    frac = (r - cfg.warmup_rounds) / max(1, cfg.rounds - cfg.warmup_rounds)
    return cfg.peak_lr * 0.5 * (1 + np.cos(np.pi * frac))


def round_data(cfg, tokens, labels, lengths, r, rng):
    """Shorter examples are sampled more often in the early rounds."""
    sharp = 3.0 * (1 - r / (cfg.rounds - 1))
    weight = np.exp(-sharp * lengths / cfg.max_len)
    rows = rng.choice(len(tokens), len(tokens), p=weight / weight.sum())
    ds = tf.data.Dataset.from_tensor_slices((tokens[rows], labels[rows]))
    return ds.batch(cfg.batch, drop_remainder=True).prefetch(2)


def compile_model(model, lr):
    model.compile(optimizer=keras.optimizers.SGD(lr * 20, momentum=0.9, clipnorm=1.0),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])


def run():
    cfg = Settings()
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(0)
    tokens, labels, lengths = corpus(cfg, cfg.n_train, 0)
    val = tf.data.Dataset.from_tensor_slices(corpus(cfg, 128, 1)[:2]).batch(64)
    model = build_model(cfg)
    compile_model(model, lr_for_round(cfg, 0))

    steps = cfg.n_train // cfg.batch
    start = time.perf_counter()
    for r in range(cfg.rounds):
        lr = lr_for_round(cfg, r)
        model.optimizer.learning_rate = lr * 20
        data = round_data(cfg, tokens, labels, lengths, r, rng)
        hist = model.fit(data, validation_data=val, epochs=1, verbose=0).history
        print(f"round {r} lr {lr:.2e} loss {hist['loss'][0]:.4f} acc {hist['accuracy'][0]:.3f} "
              f"val {hist['val_loss'][0]:.4f} {hist['val_accuracy'][0]:.3f}", flush=True)
    took = time.perf_counter() - start
    print(f"{1000 * took / (cfg.rounds * steps):.2f} ms/step")


if __name__ == "__main__":
    run()
