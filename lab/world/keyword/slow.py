"""Keyword spotting: log-mel front end in tf.data, small separable CNN."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

STEPS = int(os.environ.get("STEPS", "600"))
RATE, N_CLIPS, N_WORDS, BATCH = 8000, 640, 6, 32
FRAME, HOP, N_MELS = 512, 64, 40

MEL = tf.signal.linear_to_mel_weight_matrix(N_MELS, FRAME // 2 + 1, RATE, 60.0, 3800.0)


def synth_clips(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE, dtype="float32") / RATE
    waves = np.empty((n, RATE), "float32")
    labels = rng.integers(0, N_WORDS, n)
    for i, c in enumerate(labels):
        f0 = 300 + 150 * c + rng.uniform(-30, 30)
        sweep = rng.uniform(150, 250) * (1 if c % 2 else -1)
        env = np.exp(-((t - rng.uniform(0.3, 0.7)) / 0.15) ** 2)
        phase = 2 * np.pi * (f0 * t + 0.5 * sweep * t ** 2)
        waves[i] = env * np.sin(phase) + 0.3 * rng.standard_normal(RATE)
    return waves, labels.astype("int32")


def log_mel(wave, label):
    stft = tf.signal.stft(wave, FRAME, HOP, fft_length=FRAME)
    power = tf.abs(stft) ** 2
    mel = tf.math.log(tf.matmul(power, MEL) + 1e-3)
    mel = (mel - tf.reduce_mean(mel)) / (tf.math.reduce_std(mel) + 1e-5)
    return mel[..., None], label


def spec_mask(mel, label):
    width = tf.random.uniform((), 0, 12, tf.int32)
    start = tf.random.uniform((), 0, tf.shape(mel)[0] - width, tf.int32)
    frames = tf.range(tf.shape(mel)[0])
    keep = tf.logical_or(frames < start, frames >= start + width)
    return mel * tf.cast(keep, tf.float32)[:, None, None], label


def make_dataset(waves, labels):
    ds = tf.data.Dataset.from_tensor_slices((waves, labels))
    ds = ds.cache()
    ds = ds.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(N_CLIPS, seed=4)
    ds = ds.map(spec_mask, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH, drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)


def build(input_shape):
    inp = keras.Input(input_shape)
    h = layers.Conv2D(16, 5, 3, "same", activation="relu")(inp)
    for width in (24, 32):
        h = layers.SeparableConv2D(width, 3, strides=2, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization()(h)
        h = layers.ReLU()(h)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.1)(h)
    return keras.Model(inp, layers.Dense(N_WORDS)(h))


def main():
    keras.utils.set_random_seed(0)
    waves, labels = synth_clips(N_CLIPS, 1)
    ds = make_dataset(waves, labels)
    model = build(ds.element_spec[0].shape[1:])
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    opt = keras.optimizers.Adam(2e-3)
    opt.build(model.trainable_variables)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    for step, (x, y) in enumerate(ds.take(STEPS), 1):
        loss = train_step(x, y)
        if step % 50 == 0 or step == STEPS:
            print(f"step {step} loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main()
