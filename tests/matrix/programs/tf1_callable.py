"""A prepared callable without feeds; the input comes from an initializable iterator."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(3)

features = np.random.default_rng(3).random((160, 128), dtype=np.float32)
dataset = tf.data.Dataset.from_tensor_slices(features).repeat().shuffle(64, seed=3).batch(64)
iterator = tf.data.make_initializable_iterator(dataset)
batch = iterator.get_next()

weights = tf.Variable(tf.random.normal([128, 384], stddev=0.1))
code = tf.nn.tanh(tf.matmul(batch, weights))
loss = tf.reduce_mean(tf.square(tf.matmul(code, weights, transpose_b=True) - batch))
train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), iterator.initializer])
    train_step = session.make_callable([train_op, loss])
    losses = []
    for _ in range(40):
        _, value = train_step()
        losses.append(float(value))
print(*losses, sep="\n")
