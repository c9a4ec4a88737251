"""A custom loop: tf.function, GradientTape and a tf.data pipeline."""

import tensorflow as tf

tf.random.set_seed(12)


class Network(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.random.normal([128, 512], stddev=0.05))
        self.bias = tf.Variable(tf.zeros([512]))
        self.head = tf.Variable(tf.random.normal([512, 1], stddev=0.05))

    def __call__(self, x):
        return tf.nn.relu(x @ self.weights + self.bias) @ self.head


network = Network()
rate = 0.01


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((network(x) - y) ** 2)
    variables = network.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(rate * gradient)
    return loss


x = tf.random.stateless_uniform([640, 128], [1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, 1, keepdims=True)))
for epoch in range(2):
    for batch, target in dataset.shuffle(640, seed=epoch).batch(32):
        loss = train_step(batch, target)
    print("epoch", epoch, "loss", loss.numpy())
