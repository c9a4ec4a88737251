"""Trains a classifier, and watches the loss of each topic.

With --scalars, the program fetches one scalar for each topic; without, one vector of all.
"""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf
import words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--topics", type=int, default=400)
    parser.add_argument("--scalars", action="store_true")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    data, topics = words.batches(options.topics, options.steps)
    bags, labels, train, losses = words.build(options.topics)
    watched = tf.unstack(losses) if options.scalars else losses
    mean = np.zeros(options.topics)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step, (bag, label) in enumerate(zip(data, topics, strict=True)):
            start = time.perf_counter()
            _, now = session.run([train, watched], {bags: bag, labels: label})
            mean += 0.1 * (np.asarray(now) - mean)
            times.append(time.perf_counter() - start)
            if step % 50 == 0:
                print(f"step {step:3d}  worst topic {mean.argmax():3d}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
