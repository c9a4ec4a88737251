"""Multiplies two matrices of random numbers, and shows where the time goes.

They are drawn anew in every run, or kept in variables.

With --trace, also as such programs do it themselves: one run with FULL_TRACE, its timeline written
as a Chrome trace, and the profile printed by name scope.
"""

import argparse
import time
from pathlib import Path

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline


def kept(shape, name):
    return tf.get_variable(name, initializer=tf.random_normal(shape), trainable=False)


def build(rows, inner, columns, operand=tf.random_normal):
    with tf.name_scope("data"):
        a = operand([rows, inner], name="a")
        b = operand([inner, columns], name="b")
    with tf.name_scope("product"):
        c = tf.matmul(a, b)
        return tf.reduce_sum(c), tf.reduce_max(tf.nn.relu(c))


def trace(session, fetches):
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    session.run(fetches, options=options, run_metadata=metadata)
    Path("run_metadata.pb").write_bytes(metadata.SerializeToString())
    events = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    Path("timeline.json").write_text(events)
    profile = tf.profiler.ProfileOptionBuilder.time_and_memory()
    tf.profiler.profile(session.graph, run_meta=metadata, cmd="scope", options=profile)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operands", choices=["drawn", "kept"], default="drawn")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--inner", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()

    tf.disable_v2_behavior()
    operand = kept if args.operands == "kept" else tf.random_normal
    fetches = build(args.rows, args.inner, args.columns, operand)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(args.steps):
            start = time.perf_counter()
            _, largest = session.run(fetches)
            took = time.perf_counter() - start
            print(f"step {step:2d}  {1e3 * took:6.0f} ms  largest {largest:.1f}", flush=True)
        if args.trace:
            trace(session, fetches)


if __name__ == "__main__":
    main()
