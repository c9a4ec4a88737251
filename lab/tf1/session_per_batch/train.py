"""Ranks search results: a model that learns from clicks, one batch at a time."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

FEATURES, WIDTH = 96, 192


class Ranker:
    """The graph of a model that scores documents, and its checkpoint."""

    def __init__(self, folder):
        self.checkpoint = str(Path(folder, "ranker"))
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.documents = tf.placeholder(tf.float32, [None, FEATURES])
            self.clicks = tf.placeholder(tf.float32, [None, 1])
            hidden = self.documents
            for layer in range(6):
                with tf.variable_scope(f"layer_{layer}"):
                    kernel = tf.get_variable("kernel", [hidden.shape[-1], WIDTH])
                    bias = tf.get_variable("bias", [WIDTH], initializer=tf.zeros_initializer())
                    hidden = tf.nn.relu(tf.matmul(hidden, kernel) + bias)
            scores = tf.matmul(hidden, tf.get_variable("scores", [WIDTH, 1]))
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.clicks, logits=scores)
            self.loss = tf.reduce_mean(losses)
            self.train = tf.train.AdagradOptimizer(0.05).minimize(self.loss)
            self.start = tf.global_variables_initializer()
            self.saver = tf.train.Saver()

    def begin(self):
        """Write the first checkpoint."""
        with tf.Session(graph=self.graph) as session:
            session.run(self.start)
            self.saver.save(session, self.checkpoint, write_meta_graph=False)

    def step(self, session, documents, clicks):
        """Learn from a batch."""
        feeds = {self.documents: documents, self.clicks: clicks}
        return session.run([self.train, self.loss], feeds)[1]

    def learn(self, documents, clicks):
        """Learn from a batch, as a service does that is called for each."""
        with tf.Session(graph=self.graph) as session:
            self.saver.restore(session, self.checkpoint)
            loss = self.step(session, documents, clicks)
            self.saver.save(session, self.checkpoint, write_meta_graph=False)
        return loss


def batches(count, size):
    """Random documents, and clicks on those with a large first feature."""
    random = np.random.default_rng(0)
    for _ in range(count):
        documents = random.normal(size=(size, FEATURES)).astype(np.float32)
        yield documents, (documents[:, :1] > 0).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--session", choices=["per-batch", "kept"], default="per-batch")
    options = parser.parse_args()

    tf.disable_eager_execution()
    with tempfile.TemporaryDirectory() as folder:
        ranker = Ranker(folder)
        ranker.begin()
        with tf.Session(graph=ranker.graph) as session:
            ranker.saver.restore(session, ranker.checkpoint)
            learn = ranker.learn
            if options.session == "kept":

                def learn(documents, clicks):
                    return ranker.step(session, documents, clicks)

            train(learn, options)


def train(learn, options):
    """Pass all batches to a function, and print the median step."""
    times = []
    for step, batch in enumerate(batches(options.steps, options.batch)):
        start = time.perf_counter()
        loss = learn(*batch)
        times.append(time.perf_counter() - start)
        if step % 20 == 19:
            print(f"step {step:3d}  loss {loss:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
