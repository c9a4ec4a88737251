"""Multi-label bird species tagging of soundscape clips (log-mel CNN, Keras)."""
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

STEPS = int(os.environ.get("STEPS", "350"))
EPOCH_STEPS = min(50, STEPS)
SPECIES = 264
MELS, FRAMES = 48, 64
BATCH = 24


def make_clips(count, seed):
    """Log-mel patches with up to four species, each a band of chirps of its own."""
    rng = np.random.default_rng(seed)
    species = np.random.default_rng(99)
    centre = species.uniform(4, MELS - 4, SPECIES)
    sweep = species.uniform(-0.25, 0.25, SPECIES)
    rhythm = species.uniform(3, 16, SPECIES)
    popularity = 1.0 / np.arange(1, SPECIES + 1) ** 0.7
    popularity /= popularity.sum()
    mel = np.arange(MELS)[:, None]
    frame = np.arange(FRAMES)[None, :]
    clips = rng.normal(0, 0.35, (count, MELS, FRAMES)).astype(np.float32)
    labels = np.zeros((count, SPECIES), np.float32)
    for n in range(count):
        present = rng.choice(SPECIES, rng.integers(1, 5), replace=False, p=popularity)
        labels[n, present] = 1
        for s in present:
            phase = rng.uniform(0, FRAMES)
            track = centre[s] + sweep[s] * ((frame + phase) % rhythm[s])
            gate = ((frame + phase) % (2 * rhythm[s])) < rhythm[s]
            clips[n] += rng.uniform(0.5, 1.5) * np.exp(-(mel - track) ** 2 / 3) * gate
    return clips[..., None], labels


def dataset(clips, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((clips, labels))
    if training:
        ds = ds.shuffle(len(clips), seed=0).repeat()
    ds = ds.batch(BATCH, drop_remainder=training)
    return ds.prefetch(tf.data.AUTOTUNE)


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling2D(2)(x)


def build_model():
    inputs = keras.Input((MELS, FRAMES, 1))
    x = layers.BatchNormalization(axis=1)(inputs)
    x = layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x)
    for filters in (24, 48):
        x = conv_block(x, filters)
    average = layers.GlobalAveragePooling2D()(x)
    peak = layers.GlobalMaxPooling2D()(x)
    x = layers.Concatenate()([average, peak])
    x = layers.Dense(192, activation="relu")(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(SPECIES, activation="sigmoid")(x)
    return keras.Model(inputs, outputs, name="birdnet_small")


def ranking_metrics():
    options = dict(multi_label=True, num_labels=SPECIES, num_thresholds=1000)
    return [keras.metrics.AUC(name="macro_auc", **options),
            keras.metrics.AUC(name="macro_ap", curve="PR", **options)]


def main():
    keras.utils.set_random_seed(0)
    train = dataset(*make_clips(1500, seed=1), training=True)
    valid = dataset(*make_clips(192, seed=2), training=False)
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryFocalCrossentropy(gamma=1.0),
    )
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.9 if epoch > 3 else lr)
    history = model.fit(
        train,
        epochs=max(1, STEPS // EPOCH_STEPS),
        steps_per_epoch=EPOCH_STEPS,
        callbacks=[schedule],
        verbose=2,
    )
    print(f"final training loss {history.history['loss'][-1]:.4f}")
    metrics = ranking_metrics()
    for clips, labels in valid:
        predicted = model.predict_on_batch(clips)
        for metric in metrics:
            metric.update_state(labels, predicted)
    scores = {metric.name: metric.result() for metric in metrics}
    print("validation", {k: round(float(v), 4) for k, v in scores.items()})


if __name__ == "__main__":
    main()
