"""A prepared callable with feeds."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(4)
generator = np.random.default_rng(4)

x = tf.placeholder(tf.float32, [None, 12, 12, 3])
y = tf.placeholder(tf.float32, [None])
kernel = tf.get_variable("kernel", [3, 3, 3, 16])
head = tf.get_variable("head", [16, 1])
features = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
prediction = tf.matmul(tf.reduce_mean(features, [1, 2]), head)[:, 0]
loss = tf.losses.mean_squared_error(y, prediction)
train_op = tf.train.RMSPropOptimizer(1e-3).minimize(loss)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    train_step = session.make_callable([loss, train_op], feed_list=[x, y])
    for epoch in range(4):
        total = 0.0
        for _ in range(10):
            images = generator.random((64, 12, 12, 3), dtype=np.float32)
            total += train_step(images, images.mean((1, 2, 3)))[0]
        print("epoch", epoch, "mean loss", repr(total / 10))
