"""Queue runners: file names, records read from them, a py_func, and batches."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
tf.set_random_seed(5)


def write_records(folder):
    generator = np.random.default_rng(5)
    for shard in range(2):
        path = folder / f"train-{shard}.tfrecord"
        with tf.python_io.TFRecordWriter(str(path)) as writer:
            for _ in range(100):
                writer.write(generator.random(64, dtype=np.float32).tobytes())
        yield str(path)


def augment(vector):
    return np.roll(vector, 3) * np.float32(1.1)


names = tf.train.string_input_producer(list(write_records(Path(tempfile.mkdtemp()))), shuffle=False)
_, record = tf.TFRecordReader().read(names)
example = tf.py_func(augment, [tf.decode_raw(record, tf.float32)], tf.float32)
example.set_shape([64])
batch = tf.train.batch([example], batch_size=32, num_threads=1, capacity=128)

weights = tf.get_variable("weights", [64, 512])
back = tf.get_variable("back", [512, 64])
loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(batch, weights)), back) - batch))
train_op = tf.train.AdamOptimizer().minimize(loss)

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
        for step in range(40):
            if coordinator.should_stop():
                break
            _, value = session.run([train_op, loss])
            print(f"{step:3d} {value:.9f}")
    finally:
        coordinator.request_stop()
        coordinator.join(threads)
