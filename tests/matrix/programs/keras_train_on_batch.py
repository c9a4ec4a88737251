"""A loop around `train_on_batch`."""

import keras
import numpy as np

keras.utils.set_random_seed(11)
generator = np.random.default_rng(11)

inputs = keras.Input([100])
hidden = keras.layers.Dense(300, activation="relu")(inputs)
model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

for step in range(40):
    batch = generator.random((64, 100), dtype=np.float32)
    labels = batch[:, :10].argmax(1)
    loss, accuracy = model.train_on_batch(batch, labels)
    if step % 8 == 7:
        print(step, repr(float(loss)), repr(float(accuracy)))
