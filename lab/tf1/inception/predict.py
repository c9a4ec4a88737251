"""Times the forward pass of Inception-v3 on a constant batch, as a stopwatch shows it.

Batch normalisation is written out, or one operation. With --timeline, the last run is traced with
FULL_TRACE, and its timeline written: the operations end long before the stopwatch says.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf
from network import Inception
from tensorflow.python.client import timeline


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-norm", choices=["written", "fused"], default="written")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=299, help="107 or more")
    parser.add_argument("--width", type=float, default=1.0, help="of the layers, relative")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--timeline", action="store_true")
    args = parser.parse_args()

    tf.disable_v2_behavior()
    images = tf.ones([args.batch_size, args.image_size, args.image_size, 3])
    network = Inception(args.width, is_training=False, is_fused=args.batch_norm == "fused")
    logits, _ = network(images)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        start = time.time()
        for _ in range(args.runs):
            session.run(logits)
        seconds = (time.time() - start) / args.runs
        print(f"{seconds:.3f} s per batch, {args.batch_size / seconds:.1f} images/s")
        if args.timeline:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            metadata = tf.RunMetadata()
            session.run(logits, options=options, run_metadata=metadata)
            trace = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
            Path("timeline.json").write_text(trace)


if __name__ == "__main__":
    main()
