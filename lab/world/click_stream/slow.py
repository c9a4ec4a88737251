"""Online learning of click probability over a drifting stream of impressions."""
import time

import keras
import numpy as np
from keras import layers

FIELDS = 12
VOCAB = 400
NUMERIC = 8
BATCH = 2048
STEPS = 300


class ImpressionStream:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.effect = self.rng.normal(0, 0.5, (FIELDS, VOCAB))
        self.slope = self.rng.normal(0, 0.4, NUMERIC)

    def __iter__(self):
        return self

    def __next__(self):
        self.slope += self.rng.normal(0, 0.004, NUMERIC)
        cats = self.rng.zipf(1.4, (BATCH, FIELDS)) % VOCAB
        nums = self.rng.normal(size=(BATCH, NUMERIC)).astype("float32")
        score = self.effect[np.arange(FIELDS), cats].sum(1) + nums @ self.slope - 1.0
        click = self.rng.random(BATCH) < 1 / (1 + np.exp(-score))
        return cats.astype("int32"), nums, click.astype("float32")[:, None]


def build_model(width=16):
    cats = keras.Input((FIELDS,), dtype="int32")
    nums = keras.Input((NUMERIC,))
    shifted = layers.Lambda(lambda c: c + np.arange(FIELDS, dtype="int32") * VOCAB)(cats)
    emb = layers.Embedding(FIELDS * VOCAB, width)(shifted)
    x = layers.Concatenate()([layers.Flatten()(emb), nums])
    for units in (768, 384):
        x = layers.Dense(units, activation="relu")(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    return keras.Model([cats, nums], out)


def update(model, cats, nums, click):
    h = model.fit([cats, nums], click, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    return h.history["loss"][0]


def score_ahead(model, batches):
    """Log loss on impressions that the model will see next."""
    total = 0.0
    for cats, nums, click in batches:
        p = np.clip(model.predict_on_batch([cats, nums]), 1e-6, 1 - 1e-6)
        total -= float((click * np.log(p) + (1 - click) * np.log(1 - p)).mean())
    return total / len(batches)


def main():
    keras.utils.set_random_seed(6)
    stream = ImpressionStream(6)
    model = build_model()
    model.compile(optimizer=keras.optimizers.Adagrad(0.05), loss="binary_crossentropy")
    smooth, start = None, time.time()
    for step in range(1, STEPS + 1):
        cats, nums, click = next(stream)
        loss = float(update(model, cats, nums, click))
        smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
        if step % 30 == 0:
            ahead = score_ahead(model, [next(stream)])
            print(f"step {step:4d} loss {smooth:.4f} ahead {ahead:.4f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
