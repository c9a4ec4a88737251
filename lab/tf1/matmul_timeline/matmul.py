"""Multiplies two matrices of random numbers, once, and writes the timeline of that run.

The numbers are drawn by the run that is traced, or before it and kept in variables.
"""

import argparse
from pathlib import Path

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operands", choices=["drawn", "kept"], default="drawn")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--inner", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=1000)
    args = parser.parse_args()

    tf.disable_v2_behavior()
    a = tf.random_normal([args.rows, args.inner])
    b = tf.random_normal([args.inner, args.columns])
    if args.operands == "kept":
        a = tf.get_variable("a", initializer=a, trainable=False)
        b = tf.get_variable("b", initializer=b, trainable=False)
    res = tf.matmul(a, b)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        session.run(res, options=options, run_metadata=metadata)
        trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        Path("timeline_01.json").write_text(trace)


if __name__ == "__main__":
    main()
