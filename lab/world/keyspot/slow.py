"""Keyword spotting from raw audio: log-mel front end and a small conv net, custom tf.function loop."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", "400"))
RATE = 16000
LENGTH = RATE
BATCH = 32
WORDS = 8


def synth_clips(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(LENGTH) / RATE
    formants = np.random.default_rng(99).uniform(250, 4500, (WORDS, 3, 2))
    labels = rng.integers(0, WORDS, n)
    clips = np.empty((n, LENGTH), np.float32)
    for i, word in enumerate(labels):
        center, width = rng.uniform(0.35, 0.65), rng.uniform(0.12, 0.2)
        envelope = np.exp(-((t - center) / width) ** 2)
        sweep = np.clip((t - center) / width + 0.5, 0, 1)
        sound = 0.0
        for begin, end in formants[word]:
            freq = (begin + (end - begin) * sweep) * rng.uniform(0.95, 1.05)
            sound = sound + np.sin(2 * np.pi * np.cumsum(freq) / RATE)
        clips[i] = 0.2 * envelope * sound + rng.normal(0, 0.25, LENGTH)
    return clips, labels.astype(np.int32)


class FrontEnd(tf.Module):
    def __init__(self, frame=400, hop=160, bins=32):
        super().__init__()
        self.frame, self.hop = frame, hop
        self.mel = tf.signal.linear_to_mel_weight_matrix(
            bins, 257, RATE, 60.0, 7000.0)

    def __call__(self, waves):
        spec = tf.abs(tf.signal.stft(waves, self.frame, self.hop))
        mel = tf.tensordot(spec, self.mel, 1)
        out = tf.math.log(mel + 1e-4)
        return out - tf.reduce_mean(out, axis=1, keepdims=True)


def build_classifier():
    layers = tf.keras.layers
    return tf.keras.Sequential([
        layers.Input((98, 32)),
        layers.Conv1D(64, 5, padding="same", activation="relu"),
        layers.MaxPooling1D(2),
        layers.Conv1D(96, 5, padding="same", activation="relu"),
        layers.MaxPooling1D(2),
        layers.Conv1D(96, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(WORDS),
    ])


def main():
    tf.keras.utils.set_random_seed(0)
    clips, labels = synth_clips(1200, seed=0)
    test_clips, test_labels = synth_clips(240, seed=1)
    front, model = FrontEnd(), build_classifier()
    optimizer = tf.keras.optimizers.Adam(5e-4)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(waves, targets):
        feats = front(waves)
        with tf.GradientTape() as tape:
            logits = model(feats, training=True)
            loss = loss_fn(targets, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def predict(waves):
        return tf.argmax(model(front(waves), training=False), axis=1, output_type=tf.int32)

    data = (tf.data.Dataset.from_tensor_slices((clips, labels)).shuffle(1200, seed=5)
            .repeat().batch(BATCH, drop_remainder=True).prefetch(2))

    start = time.perf_counter()
    for step, (batch, targets) in enumerate(data.take(STEPS)):
        if step == 20:
            start = time.perf_counter()
        loss = train_step(batch, targets)
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.numpy():.4f}", flush=True)
    final = loss.numpy()
    elapsed = time.perf_counter() - start

    hits = [predict(tf.constant(test_clips[i:i + BATCH])).numpy() == test_labels[i:i + BATCH]
            for i in range(0, len(test_clips), BATCH)]
    print(f"final loss {final:.4f}  test acc {np.concatenate(hits).mean():.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
