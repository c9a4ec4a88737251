"""An eager loop: GradientTape and a Keras optimizer, nothing compiled."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(13)
layers = [keras.layers.Dense(256, activation="tanh"), keras.layers.Dense(1)]
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
x = tf.random.normal([64, 32])
y = tf.reduce_sum(x**2, 1, keepdims=True)

for step in range(40):
    with tf.GradientTape() as tape:
        out = x
        for layer in layers:
            out = layer(out)
        loss = tf.reduce_mean(tf.abs(out - y))
    variables = [v for layer in layers for v in layer.trainable_variables]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    if step % 4 == 0:
        tf.print(step, loss)
        print(loss.numpy())
