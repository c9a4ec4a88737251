"""A MonitoredTrainingSession with hooks, checkpoints and summaries."""

import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)
tf.set_random_seed(2)


class PrintLoss(tf.train.SessionRunHook):
    def __init__(self, loss):
        self.loss = loss
        self.count = 0  # the global step of the same run may be read before or after its update

    def begin(self):
        self.step = tf.train.get_global_step()

    def before_run(self, _):
        return tf.train.SessionRunArgs([self.step, self.loss])

    def after_run(self, _, values):
        if self.count % 5 == 0:
            print(self.count, repr(values.results[1]))
        self.count += 1

    def end(self, session):
        print("ended at step", session.run(self.step))


data = np.random.default_rng(2).random((256, 128), dtype=np.float32)
inputs = tf.placeholder(tf.float32, [None, 128])
weights = tf.get_variable("weights", [128, 512])
decoder = tf.get_variable("decoder", [512, 128])
output = tf.matmul(tf.nn.sigmoid(tf.matmul(inputs, weights)), decoder)
loss = tf.reduce_mean(tf.squared_difference(output, inputs))
tf.summary.scalar("loss", loss)
step = tf.train.get_or_create_global_step()
train_op = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step)

hooks = [
    tf.train.StopAtStepHook(last_step=40),
    tf.train.NanTensorHook(loss),
    PrintLoss(loss),
]
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=tempfile.mkdtemp(),
    hooks=hooks,
    save_checkpoint_steps=20,
    save_summaries_steps=10,
    log_step_count_steps=None,
) as session:
    while not session.should_stop():
        session.run(train_op, feed_dict={inputs: data})
