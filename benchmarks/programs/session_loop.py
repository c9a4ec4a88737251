"""Session runs of a fixed graph and waiting on the clock. Prints each step's time in ns."""

import sys
import time

import tensorflow.compat.v1 as tf

LENGTH_NS = int(float(sys.argv[1]) * 1e6)
STEPS = int(sys.argv[2])

tf.disable_v2_behavior()
value = tf.get_variable("value", [8])
train = tf.assign_add(value, tf.ones([8]))
times = []
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(STEPS):
        start = time.perf_counter_ns()
        session.run(train)
        worked = time.perf_counter_ns()
        while time.perf_counter_ns() - worked < LENGTH_NS:
            pass
        times.append(time.perf_counter_ns() - start)
print(*times)
