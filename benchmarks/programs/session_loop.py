"""A small network in a session. Prints the time of its loop, from the first step to the last.

python benchmarks/programs/session_loop.py LAYERS STEPS
"""

import sys
import time

import tensorflow.compat.v1 as tf

LAYERS, STEPS = map(int, sys.argv[1:])

tf.disable_v2_behavior()
net = tf.random.normal([32, 64])
for layer in range(LAYERS):
    net = tf.tanh(net @ tf.get_variable(f"weights{layer}", [64, 64]))
train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.square(net)))
one_thread = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
with tf.Session(config=one_thread) as session:
    session.run(tf.global_variables_initializer())
    start = time.perf_counter()
    for _ in range(STEPS):
        session.run(train)
    print(time.perf_counter() - start)
