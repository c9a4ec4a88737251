"""Keyword spotting on log-mel patches: depthwise-separable CNN, SpecAugment, mixup."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FRAMES, MELS, WORDS = 49, 40, 12
RATE, HOP, FFT = 16000, 320, 512
BATCH, EPOCHS = 64, 6


def synth_words(n, seed):
    """One-second clips: each word is a fixed pair of formant glides in noise."""
    rng = np.random.default_rng(seed)
    glides = np.random.default_rng(7).uniform(250, 3400, (WORDS, 2, 2)).astype("float32")
    labels = rng.integers(0, WORDS, n).astype("int32")
    t = np.arange(RATE, dtype="float32") / RATE
    clips = np.empty((n, RATE), "float32")
    for i, word in enumerate(labels):
        onset, span = rng.uniform(0.05, 0.35), rng.uniform(0.4, 0.6)
        u = np.clip((t - onset) / span, 0, 1)
        env = np.sin(np.pi * u)
        clip = 0.25 * rng.standard_normal(RATE, dtype="float32")
        for start, stop in glides[word] * rng.uniform(0.93, 1.07):
            freq = start + (stop - start) * u
            clip += env * np.sin(2 * np.pi * np.cumsum(freq) / RATE)
        clips[i] = clip
    return clips, labels


@tf.function(input_signature=[tf.TensorSpec((None, RATE), tf.float32)])
def log_mel(clips):
    spec = tf.abs(tf.signal.stft(clips, 640, HOP, FFT * 2))
    mel = tf.signal.linear_to_mel_weight_matrix(MELS, FFT + 1, RATE, 60.0, 7600.0)
    return tf.math.log(tf.matmul(spec, mel) + 1e-4)[:, :FRAMES, :, None]


def features(n, seed):
    clips, labels = synth_words(n, seed)
    return np.concatenate([log_mel(clips[i:i + 256]).numpy() for i in range(0, n, 256)]), labels


def band(n, length, widest):
    """True inside one random band per example, shape (n, length)."""
    width = tf.random.uniform((n, 1), 0, widest + 1, tf.int32)
    start = tf.random.uniform((n, 1), 0, length - widest, tf.int32)
    pos = tf.range(length)[None]
    return (pos >= start) & (pos < start + width)


def spec_augment(x, y):
    n = tf.shape(x)[0]
    drop = band(n, FRAMES, 10)[:, :, None, None] | band(n, MELS, 6)[:, None, :, None]
    return tf.where(drop, 0.0, x), tf.one_hot(y, WORDS)


def pipelines():
    x_train, y_train = features(2560, 1)
    x_val, y_val = features(512, 2)
    mean, std = x_train.mean((0, 1)), x_train.std((0, 1))
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std
    train = (tf.data.Dataset.from_tensor_slices((x_train, y_train))
             .shuffle(len(x_train)).batch(BATCH, drop_remainder=True)
             .map(spec_augment, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))
    val = (tf.data.Dataset.from_tensor_slices((x_val, tf.one_hot(y_val, WORDS)))
           .batch(128).cache().prefetch(1))
    return train, val


class MixupModel(keras.Model):
    def train_step(self, data):
        x, y = data
        lam = tf.random.uniform((tf.shape(x)[0], 1), 0.7, 1.0)
        w = lam[:, :, None, None]
        x = w * x + (1.0 - w) * tf.reverse(x, [0])
        y = lam * y + (1.0 - lam) * tf.reverse(y, [0])
        with tf.GradientTape() as tape:
            pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=pred, training=True)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, pred)
        return {m.name: m.result() for m in self.metrics}


def build():
    inp = keras.Input((FRAMES, MELS, 1))
    x = layers.Conv2D(32, (10, 4), strides=2, padding="same", use_bias=False)(inp)
    x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
    for _ in range(3):
        x = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
        x = layers.Conv2D(32, 1, use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return MixupModel(inp, layers.Dense(WORDS)(x))


class StepTime(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.ms = []

    def on_train_batch_begin(self, batch, logs=None):
        self.t0 = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.ms.append(1e3 * (time.perf_counter() - self.t0))


def main():
    keras.utils.set_random_seed(3)
    train, val = pipelines()
    model = build()
    model.compile(keras.optimizers.AdamW(3e-3, weight_decay=1e-4),
                  loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.05),
                  metrics=["accuracy"])
    timer = StepTime()
    with tempfile.TemporaryDirectory() as tmp:
        best = os.path.join(tmp, "best.weights.h5")
        model.fit(train, validation_data=val, epochs=EPOCHS, verbose=2, callbacks=[
            timer,
            keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=2),
            keras.callbacks.ModelCheckpoint(best, monitor="val_accuracy", save_best_only=True,
                                            save_weights_only=True)])
        model.load_weights(best)
        print("best", model.evaluate(val, verbose=0, return_dict=True))
    print(f"median step {np.median(timer.ms):.1f} ms, {len(timer.ms)} steps")


if __name__ == "__main__":
    main()
