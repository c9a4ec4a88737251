"""Keras `fit` on arrays, with validation and callbacks; the training stops early."""

import tempfile

import keras
import numpy as np

keras.utils.set_random_seed(9)
generator = np.random.default_rng(9)
inputs = generator.random((400, 64), dtype="float32")
targets = inputs @ generator.random((64, 1), dtype="float32")


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(epoch, logs["loss"], logs["val_loss"], float(self.model.optimizer.learning_rate))


model = keras.Sequential([keras.layers.Dense(256, activation="gelu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
callbacks = [
    Report(),
    keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1)),
    keras.callbacks.ModelCheckpoint(f"{tempfile.mkdtemp()}/best.keras", save_best_only=True),
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=1000.0),
    keras.callbacks.TerminateOnNaN(),
]
model.fit(
    inputs,
    targets,
    batch_size=16,
    epochs=9,
    validation_split=0.2,
    callbacks=callbacks,
    verbose=0,
)
print(model.evaluate(inputs, targets, verbose=0))
