"""Trains a classifier of sounds in a loop of its own, on spectrograms that tf.data computes."""

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf

CLIPS, LENGTH, FRAME, CLASSES = 512, 8192, 256, 10


def spectrogram(clip, label):
    """Shift a sound, add noise to it, and turn it into a spectrogram."""
    clip = tf.roll(clip, tf.random.uniform([], 0, LENGTH, tf.int32), 0)
    clip += 0.05 * tf.random.normal([LENGTH])
    return tf.math.log1p(tf.abs(tf.signal.stft(clip, FRAME, FRAME // 4))), label


def pipeline(batch, parallel):
    """Batches of spectrograms, one ahead of the training.

    Args:
        batch: Sounds in a batch.
        parallel: Sounds that are prepared at a time.
    """
    random = np.random.default_rng(0)
    clips = random.standard_normal([CLIPS, LENGTH], np.float32)
    labels = random.integers(0, CLASSES, CLIPS)
    dataset = tf.data.Dataset.from_tensor_slices((clips, labels)).shuffle(CLIPS).repeat()
    calls = parallel if parallel > 1 else None
    dataset = dataset.map(spectrogram, num_parallel_calls=calls)
    return dataset.batch(batch, drop_remainder=True).prefetch(1)


class Classifier(tf.Module):
    def __init__(self, width):
        super().__init__()
        random = tf.random.Generator.from_seed(0)
        bins = FRAME // 2 + 1
        self.mix = tf.Variable(random.normal([bins, width], stddev=bins**-0.5))
        self.score = tf.Variable(random.normal([width, CLASSES], stddev=width**-0.5))

    @tf.function
    def step(self, frames, labels):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.einsum("bfi,io->bfo", frames, self.mix))
            scores = tf.reduce_mean(hidden, 1) @ self.score
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(
            self.trainable_variables,
            tape.gradient(loss, self.trainable_variables),
            strict=True,
        ):
            variable.assign_sub(0.05 * gradient)
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--parallel", type=int, default=1)
    options = parser.parse_args()

    model, times = Classifier(options.width), []
    batches = iter(pipeline(options.batch, options.parallel))
    start = time.perf_counter()
    for step in range(options.steps):
        frames, labels = next(batches)
        loss = model.step(frames, labels)
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 40 == 39:
            print(f"step {step + 1:3d}  loss {float(loss):.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


if __name__ == "__main__":
    main()
