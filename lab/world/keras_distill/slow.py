"""Keyword spotting: distil a wide teacher CNN into a small student (Keras 3 on PyTorch)."""
import os

os.environ["KERAS_BACKEND"] = "torch"

import time

import keras
import numpy as np
import torch
from keras import layers, ops

keras.utils.set_random_seed(7)

N_FRAMES, N_MELS, N_WORDS = 48, 32, 12


def make_clips(n, seed):
    """Log-mel patches: every word has its own pair of formant tracks."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_WORDS, n)
    t = np.arange(N_FRAMES)[None, :, None]
    f = np.arange(N_MELS)[None, None, :]
    c1 = (6 + y)[:, None, None] + 3 * np.sin(t / (4 + y[:, None, None] % 5))
    c2 = (26 - y)[:, None, None] + 2 * np.cos(t / 6.0)
    x = np.exp(-((f - c1) ** 2) / 4) + np.exp(-((f - c2) ** 2) / 6)
    x = x + 0.6 * rng.standard_normal(x.shape)
    return x[..., None].astype("float32"), y.astype("int64")


def conv_bn(x, filters, stride=1):
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x)


def build_cnn(widths, name):
    inp = keras.Input((N_FRAMES, N_MELS, 1))
    x = inp
    for i, w in enumerate(widths):
        x = conv_bn(x, w, stride=2 if i < 2 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(N_WORDS)(x), name=name)


class Distiller(keras.Model):
    def __init__(self, student, teacher, temperature=3.0, alpha=0.4):
        super().__init__()
        self.student = student
        self.teacher = teacher
        self.temperature = temperature
        self.alpha = alpha
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.acc = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @property
    def metrics(self):
        return [self.loss_tracker, self.acc]

    def call(self, x, training=False):
        return self.student(x, training=training)

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        t_logits = self.teacher(x, training=False)
        s_logits = self.student(x, training=True)

        T = self.temperature
        p_teacher = ops.softmax(t_logits / T)
        soft = -ops.mean(ops.sum(p_teacher * ops.log_softmax(s_logits / T), axis=-1)) * T**2
        hard = ops.mean(keras.losses.sparse_categorical_crossentropy(y, s_logits, from_logits=True))
        loss = self.alpha * hard + (1.0 - self.alpha) * soft
        loss.backward()

        weights = self.student.trainable_weights
        grads = [w.value.grad for w in weights]
        with torch.no_grad():
            self.optimizer.apply(grads, weights)

        self.loss_tracker.update_state(loss.detach())
        self.acc.update_state(y, s_logits.detach())
        return {m.name: m.result() for m in self.metrics}


class StepClock(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.stamps = [time.perf_counter()]

    def on_train_batch_end(self, batch, logs=None):
        self.stamps.append(time.perf_counter())


def main():
    x, y = make_clips(2400, seed=0)
    xv, yv = make_clips(400, seed=1)

    teacher = build_cnn([40, 56, 64, 64, 64], "teacher")
    teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    teacher.fit(x[:640], y[:640], batch_size=32, epochs=1, verbose=0)

    student = build_cnn([12, 20, 24], "student")
    model = Distiller(student, teacher)
    model.compile(optimizer=keras.optimizers.Adam(2e-3))
    clock = StepClock()
    hist = model.fit(x, y, batch_size=48, epochs=3, verbose=0, callbacks=[clock])

    pred = student.predict(xv, batch_size=100, verbose=0).argmax(-1)
    print("loss", [round(v, 3) for v in hist.history["loss"]], "val acc", (pred == yv).mean())
    print("steps %d  median ms/step %.1f" % (len(clock.stamps) - 1, 1e3 * np.median(np.diff(clock.stamps))))


if __name__ == "__main__":
    main()
