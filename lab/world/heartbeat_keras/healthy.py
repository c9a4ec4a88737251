"""Arrhythmia classification of twelve-lead ECG beats (Keras, model.fit)."""
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

STEPS = int(os.environ.get("STEPS", "350"))
EPOCH_STEPS = min(50, STEPS)
LEADS, SAMPLES = 12, 192
PATCH = 8
CLASSES = 5              # normal, PVC, PAC, LBBB, RBBB
BATCH = 64


def make_beats(count, seed):
    """P, QRS and T waves as Gaussians; class changes their width, place and sign."""
    rng = np.random.default_rng(seed)
    t = np.arange(SAMPLES) / SAMPLES
    label = rng.choice(CLASSES, count, p=[0.5, 0.15, 0.12, 0.12, 0.11])
    leads = np.random.default_rng(3).normal(0.6, 0.4, (3, LEADS))
    qrs_width = np.array([.018, .045, .02, .04, .035])[label] * rng.uniform(.85, 1.15, count)
    p_height = np.array([.15, .0, .12, .15, .15])[label]
    p_place = np.array([.28, .28, .18, .28, .28])[label] + rng.normal(0, .01, count)
    t_height = np.array([.3, -.35, .3, -.25, .2])[label] * rng.uniform(.7, 1.3, count)
    beats = np.zeros((count, SAMPLES, LEADS), np.float32)
    for w, (place, width, height) in enumerate([
            (p_place, np.full(count, .03), p_height),
            (np.full(count, .45), qrs_width, np.ones(count)),
            (np.full(count, .7), np.full(count, .06), t_height)]):
        wave = height[:, None] * np.exp(-(t - place[:, None]) ** 2 / (2 * width[:, None] ** 2))
        beats += (wave[:, :, None] * leads[w]).astype(np.float32)
    beats += rng.normal(0, .08, beats.shape).astype(np.float32)
    return beats, label.astype(np.int32)


def pipeline(beats, label):
    ds = tf.data.Dataset.from_tensor_slices((beats, label))
    ds = ds.shuffle(len(beats), seed=0).repeat().batch(BATCH, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def mixer_block(x, tokens, width):
    y = layers.LayerNormalization(epsilon=1e-5)(x)
    y = layers.Permute((2, 1))(y)
    y = layers.Dense(2 * tokens, activation="relu")(y)
    y = layers.Dense(tokens)(y)
    x = layers.Add()([x, layers.Permute((2, 1))(y)])
    y = layers.LayerNormalization(epsilon=1e-5)(x)
    y = layers.Dense(4 * width, activation="relu")(y)
    return layers.Add()([x, layers.Dense(width)(y)])


def build_model(width=96, depth=3):
    inputs = keras.Input((SAMPLES, LEADS))
    tokens = SAMPLES // PATCH
    x = layers.Reshape((tokens, PATCH * LEADS))(inputs)
    x = layers.Dense(width)(x)
    for _ in range(depth):
        x = mixer_block(x, tokens, width)
    x = layers.LayerNormalization(epsilon=1e-5)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x), name="beat_mixer")


def main():
    keras.utils.set_random_seed(0)
    train = pipeline(*make_beats(6000, seed=1))
    valid = make_beats(512, seed=2)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train,
        epochs=max(1, STEPS // EPOCH_STEPS),
        steps_per_epoch=EPOCH_STEPS,
        callbacks=[keras.callbacks.TerminateOnNaN()],
        verbose=2,
    )
    loss, accuracy = model.evaluate(*valid, batch_size=256, verbose=0)
    print(f"validation loss {loss:.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
