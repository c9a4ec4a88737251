import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

# Single-class box detector on synthetic aerial tiles.
IMG = 96
STRIDES = (8, 16)
SIZES = {8: (14.0, 20.0), 16: (28.0, 40.0)}
MAX_BOXES = 24
BATCH = 12
STEPS = 150


def make_scene(rng):
    img = rng.normal(0, 0.3, (IMG, IMG, 1)).astype("float32")
    boxes = np.zeros((MAX_BOXES, 4), "float32")
    n = rng.integers(3, MAX_BOXES + 1)
    for k in range(n):
        h, w = rng.integers(10, 36, 2)
        y, x = rng.integers(0, IMG - h), rng.integers(0, IMG - w)
        img[y : y + h, x : x + w] += rng.uniform(0.6, 1.4)
        boxes[k] = (y, x, y + h, x + w)
    return img, boxes, np.arange(MAX_BOXES) < n


def make_anchors():
    out = []
    for s in STRIDES:
        c = (np.arange(IMG // s) + 0.5) * s
        cy, cx = np.meshgrid(c, c, indexing="ij")
        for size in SIZES[s]:
            out.append(np.stack([cy - size / 2, cx - size / 2, cy + size / 2, cx + size / 2], -1))
    per_scale = [np.stack(out[i : i + 2], axis=2).reshape(-1, 4) for i in (0, 2)]
    return tf.constant(np.concatenate(per_scale), tf.float32)


ANCHORS = make_anchors()


def area(b):
    return (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])


def overlap(a, b):
    lo = tf.maximum(a[..., :2], b[..., :2])
    hi = tf.minimum(a[..., 2:], b[..., 2:])
    side = tf.maximum(hi - lo, 0.0)
    inter = side[..., 0] * side[..., 1]
    return inter / (area(a) + area(b) - inter + 1e-6)


def iou_matrix(boxes):
    """[B, M, 4] ground truth -> [B, M, A] overlaps with every anchor."""
    return overlap(boxes[:, :, None, :], ANCHORS)


def assign_targets(boxes, valid):
    iou = tf.where(valid[:, :, None], iou_matrix(boxes), -1.0)
    best = tf.argmax(iou, axis=1, output_type=tf.int32)
    score = tf.reduce_max(iou, axis=1)
    positive = score > 0.4
    ignore = (score > 0.3) & ~positive
    matched = tf.gather(boxes, best, batch_dims=1)
    size = ANCHORS[:, 2:] - ANCHORS[:, :2]
    centre = (ANCHORS[:, 2:] + ANCHORS[:, :2]) / 2
    m_size = matched[..., 2:] - matched[..., :2]
    m_centre = (matched[..., 2:] + matched[..., :2]) / 2
    offsets = tf.concat([(m_centre - centre) / size, tf.math.log(tf.maximum(m_size, 1.0) / size)], -1)
    return positive, ignore, offsets


def detector():
    def conv(x, w, s=1):
        x = layers.Conv2D(w, 3, strides=s, padding="same", use_bias=False)(x)
        return layers.ReLU()(layers.BatchNormalization()(x))

    inp = keras.Input((IMG, IMG, 1))
    x = conv(conv(inp, 12, 2), 24, 2)
    p8 = conv(conv(x, 40, 2), 40)
    p16 = conv(p8, 64, 2)
    heads = [layers.Reshape((-1, 5))(layers.Conv2D(10, 3, padding="same")(p)) for p in (p8, p16)]
    return keras.Model(inp, layers.Concatenate(axis=1)(heads))


def detection_loss(out, boxes, valid):
    positive, ignore, offsets = assign_targets(boxes, valid)
    pos = tf.cast(positive, tf.float32)
    n_pos = tf.maximum(tf.reduce_sum(pos), 1.0)
    p = tf.sigmoid(out[..., 0])
    ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=pos, logits=out[..., 0])
    focal = tf.where(positive, 0.75 * (1 - p) ** 2, 0.25 * p**2) * ce
    cls = tf.reduce_sum(tf.where(ignore, 0.0, focal)) / n_pos
    diff = tf.abs(out[..., 1:] - offsets)
    huber = tf.where(diff < 0.2, 2.5 * diff**2, diff - 0.1)
    return cls, tf.reduce_sum(tf.reduce_sum(huber, -1) * pos) / n_pos


keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)
images, gt, mask = (np.stack(z) for z in zip(*(make_scene(rng) for _ in range(480))))
tiles = tf.data.Dataset.from_tensor_slices((images, gt, mask)).shuffle(480, seed=2).repeat()
tiles = tiles.batch(BATCH).prefetch(2).take(STEPS)

net = detector()
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(net.trainable_variables)


@tf.function
def train_step(image, boxes, valid):
    with tf.GradientTape() as tape:
        cls, reg = detection_loss(net(image, training=True), boxes, valid)
        loss = cls + reg
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return cls, reg


took, mark = [], time.perf_counter()
for step, (image, boxes, valid) in enumerate(tiles, 1):
    cls, reg = train_step(image, boxes, valid)
    if step % 50 == 0:
        print(f"{step:4d} cls {cls.numpy():.3f} box {reg.numpy():.3f}")
    took.append(time.perf_counter() - mark)
    mark = time.perf_counter()
print(f"{STEPS} steps, median {1e3 * np.median(took):.1f} ms")
