"""Binary segmentation of synthetic cell-like blobs with a small U-Net (Keras fit)."""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE = 64


def make_images(count, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = rng.normal(0.0, 0.25, size=(count, SIZE, SIZE, 1)).astype(np.float32)
    masks = np.zeros((count, SIZE, SIZE, 1), np.float32)
    for i in range(count):
        for _ in range(int(rng.integers(2, 7))):
            cx, cy = rng.uniform(6, SIZE - 6, 2)
            a, b = rng.uniform(4, 10, 2)
            inside = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 <= 1
            masks[i, inside, 0] = 1.0
            images[i, inside, 0] += rng.uniform(0.3, 0.8)
        images[i, ..., 0] += 0.3 * xx / SIZE
    return images, masks


def augment(images, masks):
    both = tf.concat([images, masks], axis=-1)
    both = tf.cond(tf.random.uniform([]) < 0.5, lambda: tf.reverse(both, [1]), lambda: both)
    both = tf.cond(tf.random.uniform([]) < 0.5, lambda: tf.reverse(both, [2]), lambda: both)
    images, masks = both[..., :1], both[..., 1:]
    gain = tf.random.uniform([tf.shape(images)[0], 1, 1, 1], 0.8, 1.2)
    return images * gain, masks


def conv_block(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
    return x


def build_unet(width):
    inp = keras.Input((SIZE, SIZE, 1))
    a = conv_block(inp, width)
    b = conv_block(layers.MaxPooling2D()(a), 2 * width)
    c = conv_block(layers.MaxPooling2D()(b), 4 * width)
    c = layers.UpSampling2D()(c)
    b = conv_block(layers.Concatenate()([c, b]), 2 * width)
    b = layers.UpSampling2D()(b)
    a = conv_block(layers.Concatenate()([b, a]), width)
    return keras.Model(inp, layers.Conv2D(1, 1)(a))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300, help="training steps in total")
    p.add_argument("--steps-per-epoch", type=int, default=50)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--images", type=int, default=1200)
    p.add_argument("--width", type=int, default=12)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    keras.utils.set_random_seed(0)
    images, masks = make_images(args.images)
    split = args.images - 96
    train = (tf.data.Dataset.from_tensor_slices((images[:split], masks[:split]))
             .shuffle(split).repeat()
             .batch(args.batch_size, drop_remainder=True)
             .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
             .prefetch(tf.data.AUTOTUNE))
    model = build_unet(args.width)
    model.compile(optimizer=keras.optimizers.Adam(args.lr),
                  loss=keras.losses.BinaryCrossentropy(from_logits=True),
                  metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")])
    model.fit(train, steps_per_epoch=args.steps_per_epoch,
              epochs=max(1, args.steps // args.steps_per_epoch), verbose=2)
    scores = model.evaluate(images[split:], masks[split:], batch_size=32, verbose=0, return_dict=True)
    print({k: round(float(v), 4) for k, v in scores.items()})


if __name__ == "__main__":
    main()
