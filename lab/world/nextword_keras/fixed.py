# Next word prediction, small CNN, Keras generator. Corpus is generated (fake language with bigram structure).
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import random
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(42)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)

VOCAB = 6000
SEQ_LEN = 20
BATCH = 64
EPOCHS = 3
STEPS = 90


def make_corpus(n_words=120000):
    rng = np.random.default_rng(0)
    syll = [
        "ka",
        "to",
        "mi",
        "re",
        "su",
        "na",
        "lo",
        "ve",
        "di",
        "pu",
        "shi",
        "gar",
        "en",
        "ol",
        "tri",
    ]
    words = []
    seen = set()
    while len(words) < VOCAB:
        w = "".join(rng.choice(syll, size=rng.integers(2, 5)))
        if w not in seen:
            seen.add(w)
            words.append(w)
    follow = rng.integers(0, VOCAB, (VOCAB, 4))
    out, cur = [], 0
    for u, k, j in zip(
        rng.random(n_words), rng.integers(0, 4, n_words), rng.integers(0, VOCAB, n_words)
    ):
        cur = follow[cur, k] if u < 0.7 else j
        out.append(words[cur])
    return out


class WordIndex:
    """word <-> id"""

    def __init__(self, tokens):
        self.words = ["<pad>", "<unk>"] + sorted(set(tokens))
        self.ids = {w: i for i, w in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, tokens):
        return [self.ids[t] for t in tokens]

    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)


def batches(tokens, index, seed):
    rnd = random.Random(seed)
    n = len(tokens) - SEQ_LEN - 1
    while True:
        x = np.zeros((BATCH, SEQ_LEN), np.int32)
        y = np.zeros((BATCH,), np.int32)
        for b in range(BATCH):
            s = rnd.randrange(n)
            ids = index.encode(tokens[s : s + SEQ_LEN + 1])
            x[b] = ids[:-1]
            y[b] = ids[-1]
        yield x, y


class Progress(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.n, self.total = 0, 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.time()
        self.k = 0

    def on_train_batch_end(self, batch, logs=None):
        self.k += 1
        if batch % 50 == 49:
            print("  batch %d loss %.5f" % (batch + 1, logs["loss"]), flush=True)

    def on_epoch_end(self, epoch, logs=None):
        self.total += time.time() - self.t0
        self.n += self.k
        print("epoch %d loss %.5f acc %.4f" % (epoch, logs["loss"], logs["accuracy"]))


corpus = make_corpus()
index = WordIndex(corpus)
print(len(corpus), "tokens,", len(index), "words;", corpus[:6])

model = keras.Sequential(
    [
        layers.Embedding(len(index), 32),
        layers.Conv1D(64, 5, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(len(index), activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)

progress = Progress()
model.fit(
    batches(corpus, index, 1), steps_per_epoch=STEPS, epochs=EPOCHS, verbose=0, callbacks=[progress]
)

seed_ids = index.encode(corpus[:SEQ_LEN])
p = model.predict(np.array([seed_ids]), verbose=0)[0]
print("seed:", index.decode(seed_ids[-5:]), "->", index.decode([int(p.argmax())]))
print("%.2f ms/step" % (progress.total / progress.n * 1000))
