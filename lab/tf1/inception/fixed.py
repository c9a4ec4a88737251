"""Times Inception-v3 on several towers.

Every tower is run, each with its share of the batch, and the first runs are not timed.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow.compat.v1 as tf
from network import CLASSES, Inception


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--towers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32, help="over all towers")
    parser.add_argument("--image-size", type=int, default=299, help="107 or more")
    parser.add_argument("--width", type=float, default=1.0, help="of the layers, relative")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10, help="runs before those that count")
    parser.add_argument("--train", action="store_true", help="train instead of predicting")
    parser.add_argument("--device", default="cpu", help="gpu where there are as many as towers")
    return parser.parse_args()


def average(tower_gradients):
    """The mean gradient of every variable over the towers."""
    return [
        (tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1])
        for pairs in zip(*tower_gradients, strict=True)
    ]


def main():
    args = parse_args()
    tf.disable_v2_behavior()
    with tf.device("/cpu:0"):
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.045, step, 1000, 0.94, staircase=True)
        optimizer = tf.train.RMSPropOptimizer(rate, decay=0.9, momentum=0.9, epsilon=1.0)
    images = tf.ones([args.batch_size, args.image_size, args.image_size, 3])
    labels = tf.ones([args.batch_size], tf.int32)
    image_shards = tf.split(images, args.towers)
    label_shards = tf.split(labels, args.towers)

    first = 1 if args.device == "cpu" else 0  # the first CPU holds the variables
    all_logits, losses, tower_gradients = [], [], []
    for i in range(args.towers):
        with (
            tf.device(f"/{args.device}:{first + i}"),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope("inception", reuse=i > 0),
        ):
            logits, auxiliary = Inception(args.width)(image_shards[i])
            truth = tf.one_hot(label_shards[i], CLASSES)
            loss = tf.losses.softmax_cross_entropy(truth, logits)
            loss += 0.4 * tf.losses.softmax_cross_entropy(truth, auxiliary)
            all_logits.append(logits)
            losses.append(loss)
            tower_gradients.append(optimizer.compute_gradients(loss))
    with tf.device("/cpu:0"):
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            train = optimizer.apply_gradients(average(tower_gradients), step)

    cpus = {"CPU": 1 + args.towers}  # without GPUs, each tower gets a CPU device of its own
    config = tf.ConfigProto(allow_soft_placement=False, device_count=cpus)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        fetches = [train, losses] if args.train else all_logits
        for _ in range(args.warm_up):
            session.run(fetches)
        start = time.time()
        for _ in range(args.runs):
            session.run(fetches)
        seconds = (time.time() - start) / args.runs
    print(f"{1000 * seconds:.1f} ms per run, {args.batch_size / seconds:.1f} images/s")


if __name__ == "__main__":
    main()
