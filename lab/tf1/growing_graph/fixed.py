"""Trains a classifier whose graph is complete before the loop, and locked."""

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

    # All that the loop needs is made here, once.
    accuracy = network.accuracy_of(logits, y)
    norm = tf.global_norm(tf.gradients(loss, tf.trainable_variables()))
    told = {"metric": accuracy, "assign": loss, "gradients": norm}[options.adds]
    initialise = tf.global_variables_initializer()
    tf.get_default_graph().finalize()  # from here on, adding an operation raises

    with tf.Session() as session:
        session.run(initialise)
        times = []
        for step in range(options.steps):
            start = time.perf_counter()
            chosen = network.batch_of(images, labels, step)
            feed = dict(zip((x, y), chosen, strict=True))
            if options.adds == "assign":
                rate.load(RATE * 0.99**step, session)  # a run of what the variable already has
            _, value = session.run([train, told], feed)
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
