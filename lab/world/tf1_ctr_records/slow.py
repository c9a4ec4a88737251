"""Click-through-rate model on TFRecord shards with MonitoredTrainingSession."""
import os
import shutil
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

flags = tf.app.flags
flags.DEFINE_integer("num_examples", 40000, "size of the synthetic log")
flags.DEFINE_integer("num_shards", 4, "record files")
flags.DEFINE_integer("batch_size", 512, "examples per step")
flags.DEFINE_integer("train_steps", 240, "steps to run")
flags.DEFINE_integer("embed_dim", 8, "embedding width")
flags.DEFINE_float("learning_rate", 0.05, "Adagrad learning rate")
FLAGS = flags.FLAGS

CATEGORICAL = {"site": 200, "app": 300, "device": 50, "city": 500, "banner": 20,
               "hour": 24, "weekday": 7, "campaign": 400, "advertiser": 150, "os": 12}
NUMERIC = ["n%d" % i for i in range(12)]


def feature_spec():
    spec = {name: tf.FixedLenFeature([], tf.int64) for name in CATEGORICAL}
    spec.update({name: tf.FixedLenFeature([], tf.float32) for name in NUMERIC})
    spec["label"] = tf.FixedLenFeature([], tf.float32)
    return spec


def write_shards(folder):
    rng = np.random.RandomState(0)
    n = FLAGS.num_examples
    cats = {k: rng.randint(0, v, n) for k, v in CATEGORICAL.items()}
    nums = {k: rng.normal(size=n) for k in NUMERIC}
    logit = -0.8 + 0.8 * nums["n0"] - 0.5 * nums["n1"]
    for k, v in CATEGORICAL.items():
        logit = logit + rng.normal(0, 0.4, v)[cats[k]]
    label = (rng.uniform(size=n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    paths = []
    for shard in range(FLAGS.num_shards):
        path = os.path.join(folder, "clicks-%05d.tfrecord" % shard)
        with tf.python_io.TFRecordWriter(path) as writer:
            for i in range(shard, n, FLAGS.num_shards):
                feats = {k: tf.train.Feature(int64_list=tf.train.Int64List(value=[int(c[i])]))
                         for k, c in cats.items()}
                feats.update({k: tf.train.Feature(float_list=tf.train.FloatList(value=[c[i]]))
                              for k, c in nums.items()})
                feats["label"] = tf.train.Feature(
                    float_list=tf.train.FloatList(value=[label[i]]))
                example = tf.train.Example(features=tf.train.Features(feature=feats))
                writer.write(example.SerializeToString())
        paths.append(path)
    return paths


def parse(serialized):
    features = tf.parse_single_example(serialized, feature_spec())
    label = features.pop("label")
    return features, label


def input_fn(paths):
    files = tf.data.Dataset.from_tensor_slices(paths)
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=FLAGS.num_shards)
    ds = ds.shuffle(4096, seed=3).repeat()
    ds = ds.map(parse).batch(FLAGS.batch_size, drop_remainder=True)
    ds = ds.prefetch(2)
    return tf.data.make_one_shot_iterator(ds).get_next()


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[-1]), units],
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        out = tf.matmul(x, w) + b
        return activation(out) if activation else out


def model_fn(features, label):
    parts = []
    for name, vocab in sorted(CATEGORICAL.items()):
        table = tf.get_variable("emb_" + name, [vocab, FLAGS.embed_dim],
                                initializer=tf.random_normal_initializer(stddev=0.05))
        parts.append(tf.nn.embedding_lookup(table, features[name]))
    parts.append(tf.stack([features[n] for n in NUMERIC], axis=1))
    h = tf.concat(parts, axis=1)
    h = dense(h, 128, "fc1", tf.nn.relu)
    h = dense(h, 64, "fc2", tf.nn.relu)
    logits = tf.squeeze(dense(h, 1, "logit"), axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdagradOptimizer(FLAGS.learning_rate).minimize(loss, global_step=step)
    return loss, train_op, step


class ThroughputHook(tf.train.SessionRunHook):
    def __init__(self, loss, every):
        self.loss, self.every = loss, every
        self.count = 0

    def begin(self):
        self.start = None

    def before_run(self, context):
        if self.start is None:
            self.start = time.time()
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, context, values):
        self.count += 1
        if self.count % self.every == 0:
            rate = self.count * FLAGS.batch_size / (time.time() - self.start)
            print("step %d  loss %.4f  %.0f examples/s" % (self.count, values.results, rate))

    def end(self, session):
        total = time.time() - self.start
        print("%d steps, %.2f ms/step" % (self.count, 1000.0 * total / self.count))


def main(_):
    tf.set_random_seed(5)
    folder = tempfile.mkdtemp(prefix="ctr_")
    try:
        paths = write_shards(folder)
        features, label = input_fn(paths)
        loss, train_op, _ = model_fn(features, label)
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps),
                 tf.train.NanTensorHook(loss), ThroughputHook(loss, 60)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=os.path.join(folder, "model"),
                                               save_checkpoint_secs=600,
                                               save_summaries_steps=None,
                                               save_summaries_secs=None,
                                               hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(train_op)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    tf.app.run()
