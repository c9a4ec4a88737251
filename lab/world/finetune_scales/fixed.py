"""Fine-tune a pretrained texture encoder for defect grading, with per-part learning-rate scales."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE = 56
GRADES = 4
LR_SCALES = {"neck": 0.3, "head": 1.0}


def surfaces(n, rng):
    grade = rng.integers(0, GRADES, n)
    x = rng.normal(0, 1, (n, SIZE, SIZE, 1)).astype("float32")
    x = (x + np.roll(x, 1, 1) + np.roll(x, 1, 2)) / 1.7
    for i in range(n):
        for _ in range(2 * grade[i]):
            r, c = rng.integers(4, SIZE - 14, 2)
            x[i, r : r + 10, c : c + 2] += 5.0
    return x, grade.astype("int32")


def make_encoder():
    inp = keras.Input((SIZE, SIZE, 1))
    x = inp
    for width, stride in [(24, 2), (32, 1), (48, 2), (64, 1)]:
        x = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.LeakyReLU(0.1)(x)
    return keras.Model(inp, x, name="encoder")


def pretrain(encoder, x):
    """Short denoising warm-up standing in for the published checkpoint."""
    out = layers.Conv2D(16, 1)(encoder.output)
    model = keras.Model(encoder.input, layers.Lambda(lambda t: tf.nn.depth_to_space(t, 4))(out))
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
    noise = np.random.default_rng(0).normal(0, 0.5, x.shape).astype("float32")
    model.fit(x + noise, x, batch_size=32, epochs=1, verbose=0)


class Grader(keras.Model):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.neck = keras.Sequential(
            [layers.Conv2D(32, 1, activation="relu"), layers.GlobalAveragePooling2D(), layers.BatchNormalization()],
            name="neck",
        )
        self.head = layers.Dense(GRADES, name="head")

    def call(self, images, training=None):
        features = self.encoder(images, training=False)
        return self.head(self.neck(features, training=training))

    def lr_scale(self, variable):
        for part, scale in LR_SCALES.items():
            if any(variable is v for v in getattr(self, part).variables):
                return scale
        raise ValueError(variable.path)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            scores = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=scores)
        variables = self.trainable_variables
        grads = tape.gradient(loss, variables)
        grads = [g * self.lr_scale(v) for g, v in zip(grads, variables)]
        self.optimizer.apply_gradients(zip(grads, variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, scores)
        return {m.name: m.result() for m in self.metrics}


class Laps(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.t = []

    def on_train_batch_end(self, batch, logs=None):
        self.t.append(time.perf_counter())


keras.utils.set_random_seed(9)
rng = np.random.default_rng(9)
x_train, y_train = surfaces(960, rng)
encoder = make_encoder()
pretrain(encoder, x_train[:320])

encoder.trainable = False
model = Grader(encoder)
model.build((None, SIZE, SIZE, 1))
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
laps = Laps()
model.fit(x_train, y_train, batch_size=32, epochs=4, verbose=2, callbacks=[laps])
print(f"{len(laps.t)} steps, median {1e3 * np.median(np.diff(laps.t)):.1f} ms")
