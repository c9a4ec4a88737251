"""A one-shot iterator that ends the loop with OutOfRangeError."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.set_random_seed(7)

points = np.random.default_rng(7).random((1280, 96), dtype=np.float32)
dataset = tf.data.Dataset.from_tensor_slices((points, points.sum(1)))
dataset = dataset.map(lambda p, s: (p * 2.0 - 1.0, s)).batch(32).prefetch(2)
inputs, target = tf.data.make_one_shot_iterator(dataset).get_next()

hidden = inputs
for layer in range(3):
    size = hidden.shape[-1]
    kernel = tf.get_variable(f"kernel{layer}", [size, 256])
    hidden = tf.nn.relu(tf.matmul(hidden, kernel))
prediction = tf.reduce_sum(hidden, axis=1)
loss = tf.reduce_mean(tf.abs(prediction - target))
train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    step = 0
    while True:
        try:
            _, value = session.run((train_op, loss))
        except tf.errors.OutOfRangeError:
            print("end of the data after", step, "steps")
            break
        print(repr(value))
        step += 1
