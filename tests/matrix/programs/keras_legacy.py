"""Legacy Keras (tf_keras): `fit` over an endless dataset."""

import numpy as np
import tensorflow as tf
import tf_keras

tf_keras.utils.set_random_seed(10)
generator = np.random.default_rng(10)
sequences = generator.random((320, 12, 8), dtype="float32")
sums = sequences.sum((1, 2))
dataset = tf.data.Dataset.from_tensor_slices((sequences, sums)).batch(16).repeat()

model = tf_keras.Sequential([tf_keras.layers.LSTM(24), tf_keras.layers.Dense(1)])
model.compile(tf_keras.optimizers.Adam(0.01), "mae")
print_loss = tf_keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: print(epoch, logs["loss"])
)
model.fit(dataset, epochs=2, steps_per_epoch=20, callbacks=[print_loss], verbose=0)
print(model.predict(sequences[:2], verbose=0))
