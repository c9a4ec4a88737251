"""A TensorFlow 2 loop of a tf.function that is traced twice, over a tf.data pipeline."""

import tensorflow as tf

STEPS = 60


def main():
    weights = tf.Variable(tf.random.normal((1024, 1024), stddev=0.01, seed=2))

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights)))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss

    data = tf.data.Dataset.range(STEPS * 64).map(
        lambda i: tf.ones((1024,)) * tf.cast(i, tf.float32)
    )
    for number, batch in enumerate(data.batch(64).prefetch(2)):
        value = step(batch if number < 20 else batch[:32])
    print(float(value))


if __name__ == "__main__":
    main()
