"""Trains word vectors, and lets the graph pick the few that are looked at."""

import argparse
import statistics
import time

import embeddings
import tensorflow.compat.v1 as tf

WATCHED = [0, 1, 2, 3]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--words", type=int, default=100_000)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    batches = embeddings.pairs(options.words, options.steps)
    table, pair, train, loss = embeddings.build(options.words)
    norm = tf.norm(tf.gather(table, WATCHED))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step, batch in enumerate(batches):
            start = time.perf_counter()
            _, value, length = session.run([train, loss, norm], {pair: batch})
            times.append(time.perf_counter() - start)
            if step % 50 == 0:
                print(f"step {step:3d}  loss {value:.3f}  length {length:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
