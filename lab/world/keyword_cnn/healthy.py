"""Keyword spotting on synthetic spectrograms."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FRAMES, BANDS = 64, 32
WORDS = 10
BATCH = 32
CLIPS = 1600
EPOCHS = 8


def make_clips(n, rng):
    label = rng.integers(0, WORDS, n)
    recipe = np.random.default_rng(0).uniform(4, 28, (WORDS, 3))
    t = np.linspace(0, 1, FRAMES)[None, :, None]
    band = np.arange(BANDS)[None, None]
    clips = np.zeros((n, FRAMES, BANDS), "float32")
    for k in range(3):
        place = recipe[label, k][:, None, None] + rng.normal(0, 1.5, (n, 1, 1))
        glide = 4 * np.sin(6.28 * (t * (k + 1) + rng.uniform(0, 1, (n, 1, 1))))
        clips += np.exp(-((band - place - glide) / 1.5) ** 2)
    clips += rng.normal(0, 0.35, clips.shape)
    return clips[..., None].astype("float32"), label.astype("int32")


def mask(clip, label):
    """Hide one random block of frames and one of bands in every clip."""
    n = tf.shape(clip)[0]
    f0 = tf.random.uniform((n, 1), 0, FRAMES - 10, tf.int32)
    b0 = tf.random.uniform((n, 1), 0, BANDS - 5, tf.int32)
    f, b = tf.range(FRAMES)[None], tf.range(BANDS)[None]
    keep_f = tf.cast((f < f0) | (f >= f0 + 10), tf.float32)
    keep_b = tf.cast((b < b0) | (b >= b0 + 5), tf.float32)
    return clip * keep_f[:, :, None, None] * keep_b[:, None, :, None], label


def pipeline(clips, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((clips, labels))
    if training:
        ds = ds.shuffle(len(clips), seed=1).batch(BATCH, drop_remainder=True)
        ds = ds.map(mask, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        ds = ds.batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


def build_model():
    inp = keras.Input((FRAMES, BANDS, 1))
    x = inp
    for filters in (16, 32, 48):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D()(layers.ReLU()(x))
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2, seed=3)(x)
    return keras.Model(inp, layers.Dense(WORDS)(x))


class Progress(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.step, self.start = 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % 50 == 0:
            print(f"step {self.step:4d} loss {logs['loss']:.4f} "
                  f"time {time.time() - self.start:.2f}s", flush=True)


def main():
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    train = pipeline(*make_clips(CLIPS, rng), training=True)
    val = pipeline(*make_clips(200, rng), training=False)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, epochs=EPOCHS, verbose=0, callbacks=[Progress()])
    print(model.evaluate(val, verbose=0, return_dict=True))


if __name__ == "__main__":
    main()
