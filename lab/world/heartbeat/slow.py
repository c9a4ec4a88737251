"""Classify synthetic heartbeats (four rhythm types) with a 1-D CNN in Keras.

Training goes through model.fit with learning-rate decay on plateau and checkpoints; the weights
of the last checkpoint are read back before the final evaluation.
"""

import os
import tempfile
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers

LENGTH = 256
CLASSES = 4
BATCH = 64
EPOCHS = 8
BEATS = 2560


def synth_beats(count, rng):
    """P, QRS and T waves as Gaussian bumps; the rhythm type changes widths and heights."""
    labels = rng.integers(0, CLASSES, count)
    t = np.linspace(0, 1, LENGTH)
    beats = np.zeros((count, LENGTH), dtype=np.float32)
    shapes = {
        0: ((0.2, 0.03, 0.2), (0.45, 0.015, 1.0), (0.7, 0.05, 0.35)),
        1: ((0.2, 0.03, 0.0), (0.45, 0.015, 1.0), (0.7, 0.05, 0.35)),
        2: ((0.2, 0.03, 0.2), (0.45, 0.045, 1.1), (0.7, 0.05, -0.3)),
        3: ((0.3, 0.02, 0.3), (0.42, 0.015, 0.8), (0.6, 0.04, 0.35)),
    }
    for i, label in enumerate(labels):
        for centre, width, height in shapes[int(label)]:
            centre = centre + rng.normal(0, 0.02)
            beats[i] += height * np.exp(-0.5 * ((t - centre) / width) ** 2)
    beats += 0.15 * rng.normal(size=beats.shape)
    return beats[..., None].astype(np.float32), labels.astype(np.int32)


def conv_stage(x, filters):
    x = layers.Conv1D(filters, 9, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling1D(2)(x)


def build_model():
    inputs = keras.Input((LENGTH, 1))
    x = inputs
    for filters in (48, 128):
        x = conv_stage(x, filters)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(CLASSES, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


class StepClock(keras.callbacks.Callback):
    """Collects the time from one batch start to the next inside an epoch."""

    def __init__(self):
        super().__init__()
        self.times = []
        self.last = None

    def on_epoch_begin(self, epoch, logs=None):
        self.last = None

    def on_train_batch_begin(self, batch, logs=None):
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(now - self.last)
        self.last = now

    def report(self):
        rest = sorted(self.times[30:])
        print(
            f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
            f"mean {1000 * sum(rest) / len(rest):.2f} ms"
        )


def main():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x_train, y_train = synth_beats(BEATS, rng)
    x_val, y_val = synth_beats(320, rng)
    model = build_model()
    folder = tempfile.mkdtemp(prefix="heartbeat_")
    path = os.path.join(folder, "last.weights.h5")
    clock = StepClock()
    callbacks = [
        clock,
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=2),
        keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=1),
    ]
    model.fit(
        x_train,
        y_train,
        batch_size=BATCH,
        epochs=EPOCHS,
        validation_data=(x_val, y_val),
        callbacks=callbacks,
        verbose=2,
    )
    model.load_weights(path)
    loss, accuracy = model.evaluate(x_val, y_val, verbose=0)
    print(f"final val loss {loss:.4f}  accuracy {accuracy:.3f}")
    clock.report()


if __name__ == "__main__":
    main()
