"""Character level language model (GRU, unrolled) in TensorFlow 1 style.
In the spirit of char-rnn-tensorflow; runs on TF2 through tf.compat.v1."""
import math
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

BATCH = 32
SEQ_LEN = 30
HIDDEN = 96
LAYERS = 2
PEAK_LR = 2e-3
WARMUP = 20
NUM_STEPS = 160
CLIP = 5.0


def make_text(n=200_000, seed=0):
    rng = np.random.RandomState(seed)
    words = ["".join(rng.choice(list("abcdefghijklmnopqrst"), rng.randint(2, 8))) for _ in range(300)]
    probs = 1.0 / np.arange(1, 301)
    probs /= probs.sum()
    out = " ".join(rng.choice(words, n // 5, p=probs))
    return out[:n]


class TextLoader:
    def __init__(self):
        text = make_text()
        chars = sorted(set(text))
        vocab = {c: i for i, c in enumerate(chars)}
        self.vocab_size = len(chars)
        data = np.array([vocab[c] for c in text], dtype=np.int32)
        n_batches = (len(data) - 1) // (BATCH * SEQ_LEN)
        x = data[:n_batches * BATCH * SEQ_LEN].reshape(BATCH, -1)
        y = data[1:n_batches * BATCH * SEQ_LEN + 1].reshape(BATCH, -1)
        self.x_batches = np.split(x, n_batches, 1)
        self.y_batches = np.split(y, n_batches, 1)
        self.pointer = 0

    def next_batch(self):
        x, y = self.x_batches[self.pointer], self.y_batches[self.pointer]
        self.pointer = (self.pointer + 1) % len(self.x_batches)
        return x, y


class GRUCell:
    def __init__(self, n_in, n_hidden, name):
        with tf.variable_scope(name):
            self.wg = tf.get_variable("wg", [n_in + n_hidden, 2 * n_hidden])
            self.bg = tf.get_variable("bg", [2 * n_hidden], initializer=tf.ones_initializer())
            self.wc = tf.get_variable("wc", [n_in + n_hidden, n_hidden])
            self.bc = tf.get_variable("bc", [n_hidden], initializer=tf.zeros_initializer())

    def __call__(self, x, h):
        g = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), self.wg) + self.bg)
        r, u = tf.split(g, 2, axis=1)
        c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), self.wc) + self.bc)
        return u * h + (1 - u) * c


class Model:
    def __init__(self, vocab_size):
        self.input_data = tf.placeholder(tf.int32, [BATCH, SEQ_LEN])
        self.targets = tf.placeholder(tf.int32, [BATCH, SEQ_LEN])
        self.initial_state = [tf.placeholder(tf.float32, [BATCH, HIDDEN]) for _ in range(LAYERS)]
        embedding = tf.get_variable("embedding", [vocab_size, HIDDEN])
        inputs = tf.unstack(tf.nn.embedding_lookup(embedding, self.input_data), axis=1)
        cells = [GRUCell(HIDDEN, HIDDEN, "cell%d" % i) for i in range(LAYERS)]
        state = list(self.initial_state)
        outputs = []
        for x in inputs:
            for l, cell in enumerate(cells):
                state[l] = x = cell(x, state[l])
            outputs.append(x)
        self.final_state = state
        out = tf.reshape(tf.stack(outputs, axis=1), [-1, HIDDEN])
        w = tf.get_variable("softmax_w", [HIDDEN, vocab_size])
        b = tf.get_variable("softmax_b", [vocab_size], initializer=tf.zeros_initializer())
        self.cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(self.targets, [-1]), logits=tf.matmul(out, w) + b))
        self.lr = tf.placeholder(tf.float32, [])
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), CLIP)
        self.train_op = tf.train.AdamOptimizer(self.lr).apply_gradients(zip(grads, tvars))


def learning_rate(step):
    if step < WARMUP:
        return PEAK_LR * (step + 1) / WARMUP
    return PEAK_LR * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (NUM_STEPS - WARMUP)))


def train():
    np.random.seed(0)
    tf.set_random_seed(0)
    loader = TextLoader()
    model = Model(loader.vocab_size)
    times = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state = [np.zeros((BATCH, HIDDEN), np.float32)] * LAYERS
        for step in range(NUM_STEPS):
            start = time.perf_counter()
            x, y = loader.next_batch()
            feed = {model.input_data: x, model.targets: y, model.lr: learning_rate(step)}
            feed.update(zip(model.initial_state, state))
            loss, state, _ = sess.run([model.cost, model.final_state, model.train_op], feed)
            times.append(time.perf_counter() - start)
            if step % 20 == 0:
                print("step %d  train_loss = %.3f" % (step, loss))
    print("ms per step: %.2f" % (np.median(times[10:]) * 1e3))


if __name__ == "__main__":
    train()
