"""A session loop that feeds NumPy batches."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
generator = np.random.default_rng(1)

images = tf.placeholder(tf.float32, [None, 256])
labels = tf.placeholder(tf.int64, [None])


def dense(inputs, size, name):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [inputs.shape[1], size])
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        return tf.matmul(inputs, weights) + bias


hidden = tf.nn.relu(dense(images, 512, "hidden"))
logits = dense(hidden, 10, "output")
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(40):
        batch = generator.random((128, 256), dtype=np.float32)
        target = batch.argmax(1) % 10
        _, value = session.run([train_op, loss], feed_dict={images: batch, labels: target})
        if step % 5 == 0:
            print(f"step {step}: loss {value!r}")
print("last loss", value)
