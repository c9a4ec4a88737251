"""Deep metric learning (batch-hard triplets) on sensor windows, TF2 custom loop."""
import argparse
import collections
import time

import numpy as np
import tensorflow as tf


def sensor_windows(n_ids, per_id, length, channels, seed):
    """Gait-like windows; every identity has its own cadence and harmonics."""
    base = np.random.default_rng(seed)
    cadence = base.uniform(1.2, 2.4, n_ids)
    harmonics = base.normal(0, 1, (n_ids, channels, 4))
    t = np.linspace(0, 2, length)
    xs, ys = [], []
    for i in range(n_ids):
        phase = base.uniform(0, 2 * np.pi, (per_id, 1, 1))
        wave = sum(harmonics[i, :, h, None] * np.sin(2 * np.pi * cadence[i] * (h + 1) * t + (h + 1) * phase)
                   for h in range(4))
        xs.append(wave + base.normal(0, 0.8, wave.shape))
        ys.append(np.full(per_id, i))
    x = np.transpose(np.concatenate(xs), (0, 2, 1)).astype(np.float32)
    return x, np.concatenate(ys).astype(np.int32)


class PKSampler:
    """Batches with P identities and K windows of each."""

    def __init__(self, labels, p, k, seed=0):
        self.rng = np.random.default_rng(seed)
        self.groups = collections.defaultdict(list)
        for row, label in enumerate(labels):
            self.groups[int(label)].append(row)
        self.p, self.k = p, k

    def __iter__(self):
        ids = list(self.groups)
        while True:
            chosen = self.rng.choice(len(ids), self.p, replace=False)
            yield np.concatenate([self.rng.choice(self.groups[ids[c]], self.k, replace=False) for c in chosen])


def build_encoder(length, channels, dim):
    inputs = tf.keras.Input((length, channels))
    x = inputs
    for filters, kernel in ((16, 7), (32, 5), (48, 3)):
        x = tf.keras.layers.Conv1D(filters, kernel, strides=2, padding="same")(x)
        x = tf.keras.layers.LayerNormalization()(x)
        x = tf.keras.layers.Activation("gelu")(x)
    x = tf.keras.layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(dim)(x))


def pairwise_distances(emb):
    """Euclidean distance between all pairs of rows."""
    norms = tf.reduce_sum(tf.square(emb), axis=1)
    squared = norms[:, None] + norms[None, :] - 2.0 * tf.matmul(emb, emb, transpose_b=True)
    return tf.sqrt(tf.maximum(squared, 1e-9))


def batch_hard_loss(emb, labels, margin):
    dist = pairwise_distances(emb)
    same = tf.equal(labels[:, None], labels[None, :])
    hardest_pos = tf.reduce_max(tf.where(same, dist, tf.zeros_like(dist)), axis=1)
    hardest_neg = tf.reduce_min(tf.where(same, tf.fill(tf.shape(dist), 1e6), dist), axis=1)
    loss = tf.reduce_mean(tf.nn.softplus(hardest_pos - hardest_neg + margin))
    active = tf.reduce_mean(tf.cast(hardest_pos + margin > hardest_neg, tf.float32))
    return loss, active


def recall_at_1(encoder, x, y):
    emb = encoder.predict(x, batch_size=256, verbose=0)
    emb /= np.linalg.norm(emb, axis=1, keepdims=True)
    sims = emb @ emb.T
    np.fill_diagonal(sims, -np.inf)
    return float(np.mean(y[sims.argmax(1)] == y))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--ids-per-batch", type=int, default=48)
    ap.add_argument("--windows-per-id", type=int, default=6)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--margin", type=float, default=0.3)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--eval-every", type=int, default=50)
    args = ap.parse_args()

    tf.keras.utils.set_random_seed(0)
    x, y = sensor_windows(80, 24, 96, 6, seed=0)
    val_x, val_y = sensor_windows(24, 16, 96, 6, seed=1)
    encoder = build_encoder(96, 6, args.dim)
    schedule = tf.keras.optimizers.schedules.CosineDecay(args.lr, args.steps)
    optimizer = tf.keras.optimizers.Adam(schedule, clipnorm=5.0)

    @tf.function
    def train_step(windows, labels):
        with tf.GradientTape() as tape:
            emb = encoder(windows, training=True)
            loss, active = batch_hard_loss(emb, labels, args.margin)
        grads = tape.gradient(loss, encoder.trainable_variables)
        optimizer.apply_gradients(zip(grads, encoder.trainable_variables))
        return loss, active

    print(f"recall@1 before training {recall_at_1(encoder, val_x, val_y):.3f}")
    sampler = iter(PKSampler(y, args.ids_per_batch, args.windows_per_id))
    times, window = [], []
    for step in range(1, args.steps + 1):
        start = time.perf_counter()
        rows = next(sampler)
        loss, active = train_step(tf.constant(x[rows]), tf.constant(y[rows]))
        window.append((float(loss), float(active)))
        times.append(time.perf_counter() - start)
        if step % args.eval_every == 0:
            loss, active = np.mean(window, axis=0)
            window.clear()
            print(f"step {step} loss {loss:.4f} active {active:.2f} "
                  f"recall@1 {recall_at_1(encoder, val_x, val_y):.3f}", flush=True)
    print(f"{1000 * np.median(times[5:]):.2f} ms/step")


if __name__ == "__main__":
    main()
