"""A small network in Keras. Prints the time of its loop, from the first step to the last.

python benchmarks/programs/keras_loop.py LAYERS STEPS
"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

LAYERS, STEPS = map(int, sys.argv[1:])
EPOCH = 1000  # steps

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

model = keras.Sequential([keras.layers.Dense(64, "tanh") for _ in range(LAYERS)])
model.compile("sgd", "mse")
batches = np.zeros([32 * EPOCH, 64], np.float32)
start = time.perf_counter()
model.fit(batches, batches, epochs=STEPS // EPOCH, shuffle=False, verbose=0)
print(time.perf_counter() - start)
