"""Binary lesion segmentation with a small U-Net, TensorFlow custom loop."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

L = tf.keras.layers


def make_scans(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size] / size
    images = np.zeros((n, size, size, 1), np.float32)
    masks = np.zeros((n, size, size, 1), np.float32)
    for i in range(n):
        background = 0.4 * np.sin(6 * (xx * rng.normal() + yy * rng.normal()) + rng.uniform(0, 6))
        for _ in range(rng.integers(1, 4)):
            cx, cy = rng.uniform(0.2, 0.8, 2)
            a, b = rng.uniform(0.05, 0.16, 2)
            blob = ((xx - cx) / a) ** 2 + ((yy - cy) / b) ** 2 < 1
            masks[i, ..., 0] = np.maximum(masks[i, ..., 0], blob)
        images[i, ..., 0] = background + 0.7 * masks[i, ..., 0]
        images[i, ..., 0] += rng.normal(0, 0.25, (size, size))
    return images, masks


def conv_block(x, filters):
    for _ in range(2):
        x = L.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    return x


def build_unet(size, base):
    inputs = tf.keras.Input((size, size, 1))
    x, skips = inputs, []
    for depth in range(3):
        x = conv_block(x, base * 2 ** depth)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = conv_block(x, base * 16)
    for depth in reversed(range(3)):
        x = L.UpSampling2D()(x)
        x = conv_block(L.Concatenate()([x, skips[depth]]), base * 2 ** depth)
    return tf.keras.Model(inputs, L.Conv2D(1, 1)(x))


def dice_score(probs, masks):
    inter = tf.reduce_sum(probs * masks, (1, 2, 3))
    total = tf.reduce_sum(probs, (1, 2, 3)) + tf.reduce_sum(masks, (1, 2, 3))
    return tf.reduce_mean((2 * inter + 1.0) / (total + 1.0))


class SegmentationTrainer:
    def __init__(self, model, logdir, lr=1e-3, log_every=25):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(lr)
        self.writer = tf.summary.create_file_writer(logdir)
        self.log_every = log_every
        self.step = 0

    @tf.function
    def train_step(self, images, masks):
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            bce = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(masks, logits))
            dice = dice_score(tf.sigmoid(logits), masks)
            loss = bce + 1.0 - dice
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss, dice

    @tf.function
    def eval_step(self, images, masks):
        probs = tf.sigmoid(self.model(images, training=False))
        return dice_score(tf.cast(probs > 0.5, tf.float32), masks)

    def log(self, loss, dice):
        with self.writer.as_default(step=self.step):
            tf.summary.scalar("train/loss", loss)
            tf.summary.scalar("train/dice", dice)
            if self.step % self.log_every == 0:
                for var in self.model.trainable_variables:
                    if var.name == "kernel":
                        tf.summary.histogram(f"weights/{var.path}", var.value)

    def fit(self, train, val, epochs):
        times = []
        for epoch in range(epochs):
            start, n, total = time.perf_counter(), 0, 0.0
            for images, masks in train:
                loss, dice = self.train_step(images, masks)
                self.log(loss, dice)
                total += loss
                self.step += 1
                n += 1
            times.append((time.perf_counter() - start) / n)
            score = np.mean([float(self.eval_step(x, y)) for x, y in val])
            with self.writer.as_default(step=self.step):
                tf.summary.scalar("val/dice", score)
            print(f"epoch {epoch} loss {float(total) / n:.4f} val dice {score:.4f}", flush=True)
        self.writer.flush()
        return times


def main():
    tf.keras.utils.set_random_seed(5)
    size, batch = 48, 8
    x, y = make_scans(192, size, 0)
    vx, vy = make_scans(48, size, 1)
    train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(batch).prefetch(2)
    val = tf.data.Dataset.from_tensor_slices((vx, vy)).batch(16)
    with tempfile.TemporaryDirectory() as logdir:
        trainer = SegmentationTrainer(build_unet(size, 6), logdir)
        times = trainer.fit(train, val, epochs=4)
        trainer.model.save_weights(os.path.join(logdir, "unet.weights.h5"))
    print(f"{1000 * np.median(times[1:]):.2f} ms/step")


if __name__ == "__main__":
    main()
