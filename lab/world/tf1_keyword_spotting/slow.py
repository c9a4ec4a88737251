"""Keyword spotting on synthetic log-mel patches with a small conv net (TF1 sessions)."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

KEYWORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
CONFIG = dict(frames=49, mels=40, train_clips=3200, valid_clips=400, batch_size=50,
              epochs=4, lr=1e-3, filters=(16, 32), dropout=0.3)


def synth_clips(count, rng):
    frames, mels = CONFIG["frames"], CONFIG["mels"]
    labels = rng.randint(0, len(KEYWORDS), count)
    t = np.arange(frames)[:, None]
    m = np.arange(mels)[None, :]
    clips = np.empty((count, frames, mels), np.float32)
    for i, k in enumerate(labels):
        centre = 8 + 3 * k + rng.uniform(-2, 2)
        slope = (k - 3.5) * 0.12
        onset = rng.uniform(5, 20)
        track = np.exp(-((m - centre - slope * (t - onset)) ** 2) / 8.0)
        gate = 1.0 / (1.0 + np.exp(-(t - onset)))
        clips[i] = track * gate
    clips += rng.normal(0, 0.3, clips.shape)
    return clips.astype(np.float32), labels.astype(np.int64)


class KeywordModel:
    def __init__(self):
        self.x = tf.placeholder(tf.float32, [None, CONFIG["frames"], CONFIG["mels"]], "mel")
        self.y = tf.placeholder(tf.int64, [None], "label")
        self.keep = tf.placeholder_with_default(1.0, [], "keep_prob")
        net = tf.expand_dims(self.x, 3)
        channels = 1
        for i, f in enumerate(CONFIG["filters"]):
            with tf.variable_scope("conv%d" % i):
                w = tf.get_variable("w", [5, 5, channels, f],
                                    initializer=tf.glorot_uniform_initializer())
                b = tf.get_variable("b", [f], initializer=tf.zeros_initializer())
                net = tf.nn.relu(tf.nn.conv2d(net, w, [1, 1, 1, 1], "SAME") + b)
                net = tf.nn.max_pool2d(net, 2, 2, "SAME")
                channels = f
        flat = tf.reshape(net, [-1, int(np.prod(net.shape.as_list()[1:]))])
        with tf.variable_scope("fc"):
            w = tf.get_variable("w", [int(flat.shape[1]), 64],
                                initializer=tf.glorot_uniform_initializer())
            b = tf.get_variable("b", [64], initializer=tf.zeros_initializer())
            h = tf.nn.dropout(tf.nn.relu(tf.matmul(flat, w) + b), rate=1.0 - self.keep)
        with tf.variable_scope("out"):
            w = tf.get_variable("w", [64, len(KEYWORDS)],
                                initializer=tf.glorot_uniform_initializer())
            logits = tf.matmul(h, w)
        self.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
        self.pred = tf.argmax(logits, 1)
        self.accuracy = tf.reduce_mean(tf.cast(tf.equal(self.pred, self.y), tf.float32))
        self.global_step = tf.train.get_or_create_global_step()
        lr = tf.train.exponential_decay(CONFIG["lr"], self.global_step, 100, 0.9)
        self.train_op = tf.train.AdamOptimizer(lr).minimize(self.loss,
                                                            global_step=self.global_step)
        tf.summary.scalar("loss", self.loss)
        tf.summary.scalar("accuracy", self.accuracy)
        self.summary = tf.summary.merge_all()


def batches(x, y, size, rng):
    order = rng.permutation(len(x))
    for i in range(0, len(order) - size + 1, size):
        pick = order[i:i + size]
        yield x[pick], y[pick]


def evaluate(sess, model, x, y):
    hits = []
    for i in range(0, len(x), 100):
        hits.append(sess.run(model.accuracy,
                             feed_dict={model.x: x[i:i + 100], model.y: y[i:i + 100]}))
    return float(np.mean(hits))


def train():
    rng = np.random.RandomState(0)
    tf.set_random_seed(0)
    train_x, train_y = synth_clips(CONFIG["train_clips"], rng)
    valid_x, valid_y = synth_clips(CONFIG["valid_clips"], rng)
    model = KeywordModel()
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as sess, tempfile.TemporaryDirectory() as logdir:
        writer = tf.summary.FileWriter(logdir)
        sess.run(tf.global_variables_initializer())
        steps, spent = 0, 0.0
        for epoch in range(CONFIG["epochs"]):
            tick = time.time()
            seen_loss, seen_acc = [], []
            for bx, by in batches(train_x, train_y, CONFIG["batch_size"], rng):
                feed = {model.x: bx, model.y: by, model.keep: 1.0 - CONFIG["dropout"]}
                sess.run(model.train_op, feed_dict=feed)
                loss = sess.run(model.loss, feed_dict=feed)
                acc = sess.run(model.accuracy, feed_dict=feed)
                summary = sess.run(model.summary, feed_dict=feed)
                writer.add_summary(summary, steps)
                seen_loss.append(loss)
                seen_acc.append(acc)
                steps += 1
            spent += time.time() - tick
            print("epoch %d loss %.4f acc %.3f valid %.3f" % (
                epoch, np.mean(seen_loss), np.mean(seen_acc),
                evaluate(sess, model, valid_x, valid_y)))
            saver.save(sess, os.path.join(logdir, "kws"), global_step=steps)
        writer.close()
        print("%d steps, %.2f ms/step" % (steps, 1000.0 * spent / steps))


if __name__ == "__main__":
    train()
