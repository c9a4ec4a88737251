# Keras 3, tensorflow backend: tagging of support tickets, bag of tokens -> topic.
# fit() is slow, plain loop of train_on_batch was faster?
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
from keras import layers

VOCAB, LENGTH, TOPICS = 12000, 64, 12
BATCH = 96

keras.utils.set_random_seed(5)


def tickets(n, rng):
    """Each topic prefers its own slice of the vocabulary."""
    y = rng.integers(0, TOPICS, n)
    common = rng.zipf(1.3, (n, LENGTH)) % VOCAB
    own = (y[:, None] * 900 + rng.integers(0, 900, (n, LENGTH))) % VOCAB
    use_own = rng.random((n, LENGTH)) < 0.3
    x = np.where(use_own, own, common)
    lengths = rng.integers(15, LENGTH, n)
    x[np.arange(LENGTH)[None] >= lengths[:, None]] = 0
    return x.astype("int32"), y.astype("int32")


def build():
    inp = keras.Input((LENGTH,), dtype="int32")
    h = layers.Embedding(VOCAB, 48)(inp)
    h = layers.Conv1D(96, 3, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(128, activation="relu")(h)
    h = layers.Dropout(0.1)(h)
    out = layers.Dense(TOPICS)(h)
    model = keras.Model(inp, out)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


class KeepBest(keras.callbacks.Callback):
    """Remember the weights with the lowest loss and put them back at the end."""

    def __init__(self, folder, monitor="loss"):
        super().__init__()
        self.path = os.path.join(folder, "best.npz")
        self.monitor = monitor
        self.best = float("inf")

    def _consider(self, logs):
        value = (logs or {}).get(self.monitor)
        if value is not None and value < self.best:
            self.best = value
            np.savez(self.path, *self.model.get_weights())

    def on_train_batch_end(self, batch, logs=None):
        self._consider(logs)

    def on_train_end(self, logs=None):
        with np.load(self.path) as saved:
            self.model.set_weights([saved[k] for k in saved.files])
        print(f"restored weights with {self.monitor} {self.best:.4f}")


class Progress(keras.callbacks.Callback):
    """Prints now and then; the bar of fit() fills my log files."""

    def __init__(self, every=20):
        super().__init__()
        self.every = every
        self.seen = 0
        self.marks = []

    def on_train_batch_end(self, batch, logs=None):
        self.marks.append(time.perf_counter())
        if self.seen % self.every == 0:
            print(f"step {self.seen} loss {logs['loss']:.4f} acc {logs['accuracy']:.3f}")
        self.seen += 1

    def median_ms(self):
        return 1e3 * float(np.median(np.diff(self.marks[10:])))


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    x, y = tickets(50 * BATCH, rng)
    xt, yt = tickets(512, rng)
    model = build()
    progress = Progress()
    with tempfile.TemporaryDirectory() as folder:
        model.fit(
            x, y, batch_size=BATCH, epochs=2, verbose=0, callbacks=[progress, KeepBest(folder)]
        )
    loss, acc = model.evaluate(xt, yt, verbose=0)
    print(f"test loss {loss:.4f} accuracy {acc:.3f}")
    print(f"median step {progress.median_ms():.2f} ms")
