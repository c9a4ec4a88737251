"""Small labelled images in TFRecords, and a network that classifies them."""

import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

IMAGES = 2000
SIDE = 24
CLASSES = 10


def write(path):
    """Write the images, one record each."""

    def feature(data):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))

    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, IMAGES)
    with tf.io.TFRecordWriter(path) as writer:
        for label in labels:
            image = random.integers(0, 100, [SIDE, SIDE, 3]) + 15 * label
            features = {
                "image": feature(image.astype(np.uint8).tobytes()),
                "label": feature(bytes([label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.string),
}


def decode(example, shape):
    """Images as floats, some of them flipped, and labels as integers.

    Args:
        example: What was parsed: of one record, or of many.
        shape: Its leading dimensions: [] or [-1].
    """
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [*shape, SIDE, SIDE, 3])
    label = tf.reshape(tf.io.decode_raw(example["label"], tf.uint8), shape)
    image = tf.image.random_flip_left_right(tf.cast(image, tf.float32))
    return tf.image.per_image_standardization(image), tf.cast(label, tf.int32)


def train_op(images, labels, channels):
    """One step of the network on a batch."""
    net = images
    for i in range(2):
        kernel = tf.get_variable(f"kernel{i}", [3, 3, net.shape[-1], channels])
        net = tf.nn.relu(tf.nn.conv2d(net, kernel, strides=2, padding="SAME"))
    weights = tf.get_variable("weights", [channels, CLASSES])
    logits = tf.matmul(tf.reduce_mean(net, axis=[1, 2]), weights)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return tf.train.GradientDescentOptimizer(0.05).minimize(loss), loss


def train(fetches, steps, batch):
    """Run the steps, and say how long the first one took and how many images a second follow."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        times = []
        for step in range(steps):
            start = time.perf_counter()
            _, loss = session.run(fetches)
            times.append(time.perf_counter() - start)
            if step % 50 == 0:
                print(f"step {step:3d}  loss {loss:.3f}", flush=True)
        coordinator.request_stop()
        coordinator.join(threads)
    usual = statistics.median(times[5:] or times)
    print(f"first step {times[0]:.2f} s, then {batch / usual:.0f} images/s")
