"""Keyword spotting from one second clips: log-mel front end in tf.data, small conv net."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

RATE, CLIPS, CLASSES = 16000, 490, 8
BATCH, EPOCHS, LR, SEED = 16, 14, 1e-3, 10
FRAME, HOP, MELS = 640, 160, 40


def make_clips():
    rng = np.random.default_rng(SEED)
    t = np.arange(RATE, dtype=np.float32) / RATE
    labels = rng.integers(0, CLASSES, CLIPS)
    waves = np.empty((CLIPS, RATE), np.float32)
    for i, y in enumerate(labels):
        base = 200 * 1.3 ** y * rng.uniform(0.95, 1.05)
        sweep = base * (t + 0.15 * (y % 3) * t ** 2)
        wave = np.sin(2 * np.pi * sweep) + 0.5 * np.sin(4 * np.pi * sweep)
        centre = rng.uniform(0.3, 0.7)
        waves[i] = wave * np.exp(-((t - centre) ** 2) / 0.03) + rng.normal(0, 0.4, RATE)
    return waves, labels.astype(np.int32)


MEL_MATRIX = tf.signal.linear_to_mel_weight_matrix(MELS, 513, RATE, 60.0, 7600.0)


def front_end(wave, label):
    spec = tf.signal.stft(wave, FRAME, HOP, fft_length=1024)
    power = tf.math.square(tf.abs(spec))
    mel = tf.matmul(power, MEL_MATRIX)
    logmel = tf.math.log(mel + 1e-5)
    logmel = (logmel - tf.reduce_mean(logmel)) / (tf.math.reduce_std(logmel) + 1e-5)
    return logmel[..., tf.newaxis], label


def make_dataset(waves, labels):
    steps = len(waves) // BATCH
    ds = tf.data.Dataset.from_tensor_slices((waves, labels))
    ds = ds.take(steps * BATCH)
    ds = ds.map(front_end)
    ds = ds.cache()
    ds = ds.batch(BATCH)
    return ds.prefetch(1), steps


def build_net():
    inputs = keras.Input((1 + (RATE - FRAME) // HOP, MELS, 1))
    x = inputs
    for channels in (16, 32, 48):
        x = keras.layers.Conv2D(channels, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
        x = keras.layers.MaxPooling2D(2)(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(64, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))


def main():
    keras.utils.set_random_seed(SEED)
    waves, labels = make_clips()
    train, steps = make_dataset(waves, labels)
    model = build_net()
    opt = keras.optimizers.Adam(LR)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        hits = tf.reduce_sum(tf.cast(tf.argmax(logits, 1, output_type=tf.int32) == y, tf.float32))
        return loss, hits

    start = time.time()
    step = 0
    for epoch in range(EPOCHS):
        total_loss = tf.zeros(())
        total_hits = tf.zeros(())
        for x, y in train:
            loss, hits = train_step(x, y)
            total_loss += loss
            total_hits += hits
            step += 1
        print(f"step {step:4d} epoch {epoch} loss {float(total_loss) / steps:.4f} "
              f"acc {float(total_hits) / (steps * BATCH):.3f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
