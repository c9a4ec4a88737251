"""A small network. With 'bare', five session runs are traced as TensorFlow's guide says."""

import sys
import time
from pathlib import Path

import tensorflow.compat.v1 as tf
from bare import report, watched
from tensorflow.python.client import timeline

tf.disable_v2_behavior()
images = tf.constant(0.5, shape=[8, 32, 32, 3])
kernel = tf.get_variable("kernel", [3, 3, 3, 16])
kernel2 = tf.get_variable("kernel2", [3, 3, 16, 16])
net = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))
net = tf.nn.relu(tf.nn.conv2d(net, kernel2, 1, "SAME"))
loss = tf.reduce_mean(tf.square(net))
train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
session = tf.Session()
session.run(tf.global_variables_initializer())


class Bare:
    def __init__(self):
        self.running = False
        self.records = []

    def start(self):
        self.running = True

    def step(self):
        pass

    def stop(self, folder):
        self.running = False
        for number, record in enumerate(self.records):
            trace = timeline.Timeline(record.step_stats).generate_chrome_trace_format()
            Path(folder, f"timeline-{number}.json").write_text(trace)


bare = Bare()


def step():
    if not bare.running:
        session.run(train)
        return
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    record = tf.RunMetadata()
    session.run(train, options=options, run_metadata=record)
    bare.records.append(record)


report(watched(step, bare if "bare" in sys.argv else None, clock=time.perf_counter_ns))
