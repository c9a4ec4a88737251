"""BIO tagger (embedding + dilated convolutions) over a large word list, tf.Module style."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--vocab", type=int, default=250000)
parser.add_argument("--dim", type=int, default=64)
parser.add_argument("--hidden", type=int, default=128)
parser.add_argument("--tags", type=int, default=9)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--length", type=int, default=40)
parser.add_argument("--steps", type=int, default=240)
parser.add_argument("--lr", type=float, default=0.05)
args = parser.parse_args()

tf.random.set_seed(5)
rng = np.random.default_rng(5)


def corpus(n):
    """Zipf-distributed words, right padded with id 0; a word's tag depends on it and its left neighbour."""
    lengths = rng.integers(args.length // 2, args.length + 1, n)
    words = np.minimum(rng.zipf(1.15, (n, args.length)), args.vocab - 1)
    words = np.where(np.arange(args.length)[None] < lengths[:, None], words, 0)
    left = np.pad(words, ((0, 0), (1, 0)))[:, :-1]
    tags = np.where(left % 3 == 0, words % args.tags, (words // 7) % args.tags)
    return words.astype(np.int32), tags.astype(np.int32)


class Conv(tf.Module):
    def __init__(self, cin, cout, rate):
        super().__init__()
        self.rate = rate
        self.w = tf.Variable(tf.random.normal([3, cin, cout], stddev=(2 / (3 * cin)) ** 0.5), name="w")
        self.b = tf.Variable(tf.zeros([cout]), name="b")

    def __call__(self, x):
        return tf.nn.conv1d(x, self.w, 1, "SAME", dilations=self.rate) + self.b


class Tagger(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(tf.random.normal([args.vocab, args.dim], stddev=0.3), name="table")
        self.inp = Conv(args.dim, args.hidden, 1)
        self.blocks = [Conv(args.hidden, args.hidden, r) for r in (1, 2, 4)]
        self.out = tf.Variable(tf.random.normal([args.hidden, args.tags], stddev=0.1), name="out")

    def embed(self, ids):
        return tf.gather(self.table, ids) * tf.cast(ids != 0, tf.float32)[..., None]

    def __call__(self, ids):
        x = tf.nn.relu(self.inp(self.embed(ids)))
        for block in self.blocks:
            x = x + tf.nn.relu(block(x))
        return tf.einsum("blh,ht->blt", x, self.out)


class Adagrad(tf.Module):
    def __init__(self, variables, lr, init=0.1):
        super().__init__()
        self.variables_, self.lr = list(variables), lr
        self.acc = [tf.Variable(tf.fill(v.shape, init), trainable=False, name="acc") for v in self.variables_]

    def apply(self, grads):
        for g, v, a in zip(grads, self.variables_, self.acc):
            if isinstance(g, tf.IndexedSlices):
                rows, where = tf.unique(g.indices)
                vals = tf.math.unsorted_segment_sum(g.values, where, tf.size(rows))
                tf.raw_ops.ResourceSparseApplyAdagradV2(
                    var=v.handle, accum=a.handle, lr=self.lr, epsilon=1e-7, grad=vals, indices=rows)
            else:
                tf.raw_ops.ResourceApplyAdagradV2(
                    var=v.handle, accum=a.handle, lr=self.lr, epsilon=1e-7, grad=g)


model = Tagger()
optimizer = Adagrad(model.trainable_variables, args.lr)


@tf.function
def train_step(ids, tags):
    with tf.GradientTape() as tape:
        logits = model(ids)
        mask = tf.cast(ids != 0, tf.float32)
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tags, logits=logits)
        loss = tf.reduce_sum(ce * mask) / tf.reduce_sum(mask)
    grads = tape.gradient(loss, optimizer.variables_)
    optimizer.apply(grads)
    return loss


@tf.function
def accuracy(ids, tags):
    mask = tf.cast(ids != 0, tf.float32)
    hit = tf.cast(tf.argmax(model(ids), -1, output_type=tf.int32) == tags, tf.float32)
    return tf.reduce_sum(hit * mask) / tf.reduce_sum(mask)


train = corpus(4000)
dev = [tf.constant(a) for a in corpus(200)]
data = iter(tf.data.Dataset.from_tensor_slices(train).shuffle(4000, seed=2).repeat()
            .batch(args.batch, drop_remainder=True).prefetch(2))
times = []
for step in range(1, args.steps + 1):
    t0 = time.perf_counter()
    loss = train_step(*next(data))
    times.append(time.perf_counter() - t0)
    if step % 80 == 0:
        print(f"step {step}: loss {float(loss):.4f}, dev accuracy {float(accuracy(*dev)):.4f}")
print(f"{1000 * np.median(times[5:]):.2f} ms per step")
