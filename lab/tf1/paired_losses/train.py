"""Learns an embedding in which photos of one product lie close together, by pairs of a batch."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

PIXELS, HIDDEN, WIDTH, PRODUCTS = 512, 512, 96, 40


def dense(values, width, name):
    """A fully connected layer."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(values.shape[-1]), width])
        return tf.matmul(values, kernel)


def embedding(photos):
    hidden = tf.nn.relu(dense(photos, HIDDEN, "first"))
    hidden = tf.nn.relu(dense(hidden, HIDDEN, "second"))
    return dense(hidden, WIDTH, "last")


def distances_of(points, by_differences):
    """Squared distances of all pairs of points."""
    if by_differences:
        return tf.reduce_sum(tf.square(points[:, None] - points[None]), -1)
    lengths = tf.reduce_sum(tf.square(points), -1)
    return lengths[:, None] + lengths[None] - 2 * tf.matmul(points, points, transpose_b=True)


def contrastive(distances, products):
    """Pulls photos of one product together, and pushes the others apart."""
    same = tf.cast(tf.equal(products[:, None], products[None]), tf.float32)
    return tf.reduce_mean(same * distances + (1 - same) * tf.nn.relu(1 - distances))


def examples(random, batch):
    """Photos and their products."""
    products = random.integers(0, PRODUCTS, batch)
    photos = random.normal(size=[batch, PIXELS]) + products[:, None] / PRODUCTS
    return photos.astype(np.float32), products


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=320)
    parser.add_argument("--distances", choices=["differences", "product"], default="differences")
    options = parser.parse_args()

    tf.disable_eager_execution()
    photos = tf.placeholder(tf.float32, [None, PIXELS])
    products = tf.placeholder(tf.int64, [None])
    distances = distances_of(embedding(photos), options.distances == "differences")
    loss = contrastive(distances, products)
    train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
    random, times = np.random.default_rng(0), []
    batches = [examples(random, options.batch) for _ in range(16)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            values = dict(zip((photos, products), batches[step % len(batches)], strict=True))
            start = time.perf_counter()
            _, value = session.run([train, loss], values)
            times.append(time.perf_counter() - start)
            if step % 40 == 39:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
