"""Keyword spotting: log-mel features + small conv net, Keras."""
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

RATE = 16000
SECONDS = 1.5
CLASSES = ["yes", "no", "up", "down", "left", "right"]
CLIPS_PER_CLASS = 40
EPOCHS = 14
BATCH = 16


def synthesize(rng, label):
    """A crude formant 'word': a few gliding harmonics plus noise."""
    t = np.arange(int(RATE * SECONDS)) / RATE
    f0 = rng.uniform(110, 220)
    glide = 1.0 + (label - 2.5) * 0.12 * t
    wave = np.zeros_like(t)
    for h in range(1, 7):
        formant = np.exp(-((h * f0 - 400 - 250 * label) / 500.0) ** 2)
        wave += (0.2 + formant) * np.sin(2 * np.pi * h * f0 * glide * t)
    env = np.exp(-((t - rng.uniform(0.5, 0.9)) / 0.25) ** 2)
    wave = 0.3 * wave * env + rng.normal(0, 0.05, t.shape)
    return np.clip(wave / 3.0, -1, 1).astype(np.float32)


def write_corpus(folder):
    rng = np.random.default_rng(7)
    for label, name in enumerate(CLASSES):
        os.makedirs(os.path.join(folder, name))
        for i in range(CLIPS_PER_CLASS):
            pcm = tf.audio.encode_wav(synthesize(rng, label)[:, None], RATE)
            tf.io.write_file(os.path.join(folder, name, f"{i:03d}.wav"), pcm)


MEL = tf.signal.linear_to_mel_weight_matrix(64, 513, RATE, 60.0, 7600.0)


def read_features(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1)
    wave = tf.squeeze(wave, -1)
    wave = tf.concat([wave[:1], wave[1:] - 0.97 * wave[:-1]], 0)
    spec = tf.abs(tf.signal.stft(wave, frame_length=800, frame_step=100, fft_length=1024))
    mel = tf.math.log(tf.matmul(tf.square(spec), MEL) + 1e-6)
    mel = (mel - tf.reduce_mean(mel)) / (tf.math.reduce_std(mel) + 1e-5)
    return mel[..., None], label


def spec_augment(mel, label):
    width = tf.shape(mel)[1]
    start = tf.random.uniform([], 0, width - 8, tf.int32)
    keep = tf.concat([tf.ones([start]), tf.zeros([8]), tf.ones([width - 8 - start])], 0)
    return mel * keep[None, :, None], label


def make_datasets(folder):
    files, labels = [], []
    for label, name in enumerate(CLASSES):
        for f in sorted(os.listdir(os.path.join(folder, name))):
            files.append(os.path.join(folder, name, f))
            labels.append(label)
    order = np.random.default_rng(1).permutation(len(files))
    files, labels = np.array(files)[order], np.array(labels)[order]
    n_val = len(files) // 6

    def features(f, l):
        ds = tf.data.Dataset.from_tensor_slices((f, l))
        return ds.map(read_features, num_parallel_calls=tf.data.AUTOTUNE)

    train = features(files[n_val:], labels[n_val:])
    train = train.shuffle(200).map(spec_augment, num_parallel_calls=tf.data.AUTOTUNE)
    val = features(files[:n_val], labels[:n_val])
    return train.batch(BATCH).prefetch(tf.data.AUTOTUNE), val.batch(32).prefetch(1)


def build_model(shape):
    inputs = keras.Input(shape)
    x = keras.layers.AveragePooling2D((2, 1))(inputs)
    for filters, stride in ((12, 2), (24, 2), (32, 2)):
        x = keras.layers.SeparableConv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dropout(0.2)(x)
    return keras.Model(inputs, keras.layers.Dense(len(CLASSES))(x))


class EpochTimer(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.times = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.times.append(time.perf_counter() - self.start)


def main():
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(folder)
        train, val = make_datasets(folder)
        model = build_model(train.element_spec[0].shape[1:])
        model.compile(optimizer=keras.optimizers.Adam(3e-3),
                      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        timer = EpochTimer()
        callbacks = [timer, keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5)]
        model.fit(train, validation_data=val, epochs=EPOCHS, callbacks=callbacks, verbose=2)
        steps = int(train.cardinality())
        print(f"{1000 * np.median(timer.times[1:]) / steps:.2f} ms/step")
        model.save(os.path.join(folder, "kws.keras"))


if __name__ == "__main__":
    main()
