"""Writes summaries of all variables and gradients for TensorBoard, every few steps."""

import argparse
import statistics
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf

WIDTH = 256


def network(batch, layers=4):
    """A small regression: the operation that trains, the loss, and the summaries."""
    x = tf.constant(np.random.default_rng(0).standard_normal([batch, WIDTH]), tf.float32)
    hidden = x
    for layer in range(layers):
        with tf.variable_scope(f"layer{layer}"):
            weights = tf.get_variable("weights", [WIDTH, WIDTH])
            hidden = tf.nn.relu(tf.matmul(hidden, weights))
    loss = tf.reduce_mean(tf.square(hidden - x))
    optimizer = tf.train.GradientDescentOptimizer(0.01)
    pairs = optimizer.compute_gradients(loss)
    for gradient, variable in pairs:
        tf.summary.histogram(variable.op.name, variable)
        tf.summary.histogram(f"{variable.op.name}/gradient", gradient)
    tf.summary.scalar("loss", loss)
    return optimizer.apply_gradients(pairs), loss, tf.summary.merge_all()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    train_op, loss, summaries = network(options.batch)
    times = []
    with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
        writer = tf.summary.FileWriter(folder)
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            start = time.perf_counter()
            if step % options.every:
                _, value = session.run([train_op, loss])
            else:
                _, value, summary = session.run([train_op, loss, summaries])
                writer.add_summary(summary, step)
                writer.flush()
            times.append(time.perf_counter() - start)
            if step % 50 == 0:
                print(f"step {step:3d}  loss {np.mean(value):.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
