"""Keras `fit` on a tf.data pipeline."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
generator = np.random.default_rng(8)
images = generator.random((640, 16, 16, 1), dtype="float32")
labels = (images.mean((1, 2, 3)) > 0.5).astype("int64")
dataset = (
    tf.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(640, seed=8)
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)

model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        keras.layers.Dense(2),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(dataset, epochs=2, verbose=0)
print(history.history)
