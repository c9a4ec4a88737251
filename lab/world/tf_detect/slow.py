"""Single-class anchor detector (SSD style) trained with a custom TF2 loop."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class DetConfig:
    size: int = 64
    strides: tuple = (4, 8)
    scales: tuple = (8.0, 12.0, 18.0)
    max_boxes: int = 200
    max_objects: int = 8
    batch: int = 16
    n_train: int = 320
    n_val: int = 64
    epochs: int = 8
    lr: float = 2e-3
    pos_iou: float = 0.5
    neg_iou: float = 0.4


def draw_dataset(cfg, n, seed):
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.2, (n, cfg.size, cfg.size, 1)).astype(np.float32)
    boxes = np.zeros((n, cfg.max_boxes, 4), np.float32)
    counts = rng.integers(1, cfg.max_objects + 1, n).astype(np.int32)
    for i in range(n):
        for j in range(counts[i]):
            w, h = rng.uniform(7, 20, 2)
            x0, y0 = rng.uniform(0, cfg.size - w), rng.uniform(0, cfg.size - h)
            boxes[i, j] = (x0, y0, x0 + w, y0 + h)
            images[i, int(y0):int(y0 + h), int(x0):int(x0 + w), 0] += rng.uniform(0.5, 1.2)
    return images, boxes, counts


def make_anchors(cfg):
    out = []
    for stride, scales in zip(cfg.strides, (cfg.scales[:2], cfg.scales[1:])):
        centers = (np.arange(cfg.size // stride) + 0.5) * stride
        cy, cx = np.meshgrid(centers, centers, indexing="ij")
        for_level = [np.stack([cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2], -1) for s in scales]
        out.append(np.stack(for_level, 2).reshape(-1, 4))
    return tf.constant(np.concatenate(out), tf.float32)


def iou(anchors, boxes):
    """anchors (A, 4) against boxes (..., M, 4) -> (..., A, M)."""
    b = boxes[..., None, :, :]
    a = anchors[:, None, :]
    wh = tf.minimum(a[..., 2:], b[..., 2:]) - tf.maximum(a[..., :2], b[..., :2])
    wh = tf.maximum(wh, 0.0)
    inter = wh[..., 0] * wh[..., 1]
    area_a = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1])
    area_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    return inter / (area_a + area_b - inter + 1e-6)


def encode(anchors, boxes):
    a_wh = anchors[:, 2:] - anchors[:, :2]
    a_c = anchors[:, :2] + a_wh / 2
    b_wh = tf.maximum(boxes[..., 2:] - boxes[..., :2], 1.0)
    b_c = boxes[..., :2] + (boxes[..., 2:] - boxes[..., :2]) / 2
    return tf.concat([(b_c - a_c) / a_wh, tf.math.log(b_wh / a_wh)], -1)


def assign(boxes, count, anchors, cfg):
    """Class target (1, 0 or -1 for ignored) and box target of every anchor."""
    valid = tf.sequence_mask(count, tf.shape(boxes)[-2])
    overlap = tf.where(valid[..., None, :], iou(anchors, boxes), -1.0)
    best = tf.reduce_max(overlap, -1)
    which = tf.argmax(overlap, -1)
    cls = tf.where(best >= cfg.pos_iou, 1.0, tf.where(best < cfg.neg_iou, 0.0, -1.0))
    matched = tf.gather(boxes, which, axis=-2, batch_dims=len(boxes.shape) - 2)
    return cls, encode(anchors, matched)


def build_targets(boxes, counts, anchors, cfg):
    return assign(boxes, counts, anchors, cfg)


def build_detector(cfg):
    layers = tf.keras.layers
    inputs = tf.keras.Input((cfg.size, cfg.size, 1))
    x = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
    outs = []
    for _ in cfg.strides:
        x = layers.Conv2D(24, 3, padding="same", activation="relu")(x)
        head = layers.Conv2D(2 * 5, 3, padding="same")(x)
        outs.append(layers.Reshape((-1, 5))(head))
        x = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(x)
    return tf.keras.Model(inputs, layers.Concatenate(axis=1)(outs))


def detection_loss(pred, cls_t, box_t):
    logit = pred[..., 0]
    used = tf.cast(cls_t >= 0, tf.float32)
    pos = tf.cast(cls_t > 0.5, tf.float32)
    n_pos = tf.maximum(tf.reduce_sum(pos), 1.0)
    ce = tf.nn.sigmoid_cross_entropy_with_logits(pos, logit)
    p = tf.sigmoid(logit)
    focal = tf.square(tf.abs(pos - p)) * (0.25 * pos + 0.75 * (1 - pos)) * ce
    err = tf.abs(pred[..., 1:] - box_t)
    huber = tf.where(err < 0.1, 5.0 * err * err, err - 0.05)
    return tf.reduce_sum(focal * used) / n_pos, tf.reduce_sum(huber * pos[..., None]) / n_pos


def main():
    cfg = DetConfig()
    tf.keras.utils.set_random_seed(2)
    anchors = make_anchors(cfg)
    train = tf.data.Dataset.from_tensor_slices(draw_dataset(cfg, cfg.n_train, 0))
    train = train.shuffle(cfg.n_train).batch(cfg.batch, drop_remainder=True).prefetch(2)
    val = tf.data.Dataset.from_tensor_slices(draw_dataset(cfg, cfg.n_val, 1)).batch(cfg.batch)
    model = build_detector(cfg)
    optimizer = tf.keras.optimizers.Adam(cfg.lr)

    @tf.function
    def train_step(images, boxes, counts):
        cls_t, box_t = build_targets(boxes, counts, anchors, cfg)
        with tf.GradientTape() as tape:
            cls_loss, box_loss = detection_loss(model(images, training=True), cls_t, box_t)
            loss = cls_loss + box_loss
        grads = tape.gradient(loss, model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 10.0)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return tf.stack([cls_loss, box_loss])

    @tf.function
    def val_step(images, boxes, counts):
        return tf.stack(detection_loss(model(images, training=False),
                                       *build_targets(boxes, counts, anchors, cfg)))

    times = []
    for epoch in range(cfg.epochs):
        start, sums, n = time.perf_counter(), tf.zeros(2), 0
        for batch in train:
            sums += train_step(*batch)
            n += 1
        cls_loss, box_loss = (sums / n).numpy()
        times.append((time.perf_counter() - start) / n)
        v = np.mean([val_step(*batch).numpy() for batch in val], axis=0)
        print(f"epoch {epoch} cls {cls_loss:.4f} box {box_loss:.4f} val {v[0]:.4f} {v[1]:.4f}", flush=True)
    print(f"{1000 * np.median(times[1:]):.2f} ms/step with {anchors.shape[0]} anchors")


if __name__ == "__main__":
    main()
