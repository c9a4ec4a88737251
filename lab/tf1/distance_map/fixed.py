"""Trains on distance maps that were computed once, and lie beside the images in TFRecords."""

import argparse
import tempfile
import time
from pathlib import Path

import segmentation
import tensorflow.compat.v1 as tf
from segmentation import BATCH, IMAGES


def write_records(path, images, masks):
    """Compute every distance map, once."""

    def feature(array):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[array.tobytes()]))

    with tf.io.TFRecordWriter(path) as writer:
        for image, mask in zip(images, masks, strict=True):
            features = {
                "image": feature(image),
                "distances": feature(segmentation.distance_map(mask)),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def from_records(path, side):
    """Read them back: nothing of it is Python."""

    def parse(record):
        text = tf.io.FixedLenFeature([], tf.string)
        example = tf.io.parse_single_example(record, {"image": text, "distances": text})
        image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [side, side, 3])
        distances = tf.io.decode_raw(example["distances"], tf.float32)
        return image, tf.reshape(distances, [side, side])

    dataset = tf.data.TFRecordDataset(path).shuffle(IMAGES).repeat()
    dataset = dataset.map(parse, num_parallel_calls=2).batch(BATCH, drop_remainder=True)
    return tf.data.make_one_shot_iterator(dataset.prefetch(2)).get_next()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--side", type=int, default=48, help="pixels; 166: the slow one")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "train.tfrecords")
        start = time.perf_counter()
        write_records(path, *segmentation.load(options.side))
        print(f"{IMAGES} distance maps computed once in {time.perf_counter() - start:.1f} s")
        fetches = segmentation.train_op(*from_records(path, options.side))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            segmentation.train(session, fetches, options.steps)


if __name__ == "__main__":
    main()
