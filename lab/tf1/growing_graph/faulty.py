"""Trains a classifier, and adds operations to its graph in each step without meaning to."""

import argparse
import statistics
import time

import network
import tensorflow.compat.v1 as tf

RATE = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adds", choices=["metric", "assign", "gradients"], default="metric")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    images, labels = network.load()
    x = tf.placeholder(tf.float32, [None, network.SIDE, network.SIDE, 3])
    y = tf.placeholder(tf.int32, [None])
    logits = network.logits_of(x)
    loss = network.loss_of(logits, y)
    rate = tf.get_variable("rate", initializer=RATE, trainable=False)
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(options.steps):
            start = time.perf_counter()
            chosen = network.batch_of(images, labels, step)
            feed = dict(zip((x, y), chosen, strict=True))
            if options.adds == "metric":
                accuracy = network.accuracy_of(logits, y)
                _, value = session.run([train, accuracy], feed)
            elif options.adds == "assign":
                session.run(tf.assign(rate, RATE * 0.99**step))
                _, value = session.run([train, loss], feed)
            else:
                gradients = tf.gradients(loss, tf.trainable_variables())
                norm = tf.global_norm(gradients)
                _, value = session.run([train, norm], feed)
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
