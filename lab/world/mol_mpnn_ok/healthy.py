"""Message-passing network for graph regression on random molecule-like graphs.

Graphs are packed into batches with a fixed budget of nodes and edges, so every batch has one shape.
"""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

ATOMS, BONDS = 12, 4
GRAPHS, NODES, EDGES = 48, 1152, 2560       # per batch; the last graph, node and edge slots are padding
WIDTH, LAYERS = 96, 4


def molecule(rng):
    n = int(rng.integers(14, 32))
    parent = np.array([rng.integers(max(0, i - 3), i) for i in range(1, n)])
    rings = rng.integers(0, n, (n // 8, 2))
    rings = rings[rings[:, 0] != rings[:, 1]]
    one_way = np.concatenate([np.stack([np.arange(1, n), parent], 1), rings])
    bond = rng.integers(0, BONDS, len(one_way))
    atom = rng.integers(0, ATOMS, n)
    energy = np.sin(atom[one_way[:, 0]] + 1.7 * bond) * np.cos(atom[one_way[:, 1]])
    return atom, np.concatenate([one_way, one_way[:, ::-1]]), np.concatenate([bond, bond]), energy.sum() / 4


def pack(graphs):
    atoms, owner = np.zeros(NODES, np.int32), np.full(NODES, GRAPHS - 1, np.int32)
    src, dst, bonds = (np.full(EDGES, fill, np.int32) for fill in (NODES - 1, NODES - 1, 0))
    target, weight = np.zeros(GRAPHS, np.float32), np.zeros(GRAPHS, np.float32)
    n = e = 0
    for g, (atom, edge, bond, y) in enumerate(graphs):
        atoms[n:n + len(atom)], owner[n:n + len(atom)] = atom, g
        src[e:e + len(edge)], dst[e:e + len(edge)], bonds[e:e + len(edge)] = edge[:, 0] + n, edge[:, 1] + n, bond
        target[g], weight[g] = y, 1.0
        n, e = n + len(atom), e + len(edge)
    return atoms, owner, src, dst, bonds, target, weight


def packed(rng, batches):
    out, current, n, e = [], [], 0, 0
    while len(out) < batches:
        mol = molecule(rng)
        if len(current) == GRAPHS - 1 or n + len(mol[0]) > NODES - 1 or e + len(mol[1]) > EDGES:
            out.append(pack(current))
            current, n, e = [], 0, 0
        current.append(mol)
        n, e = n + len(mol[0]), e + len(mol[1])
    return tuple(np.stack(column) for column in zip(*out))


class MPNN(tf.keras.Model):
    def __init__(self):
        super().__init__()
        dense = tf.keras.layers.Dense
        self.atom = tf.keras.layers.Embedding(ATOMS, WIDTH)
        self.bond = [tf.keras.layers.Embedding(BONDS, WIDTH) for _ in range(LAYERS)]
        self.send = [dense(WIDTH) for _ in range(LAYERS)]
        self.update = [tf.keras.Sequential([dense(WIDTH, activation="relu"), dense(WIDTH)]) for _ in range(LAYERS)]
        self.norm = [tf.keras.layers.LayerNormalization() for _ in range(LAYERS)]
        self.readout = tf.keras.Sequential([dense(WIDTH, activation="relu"), dense(1)])

    def call(self, inputs):
        atoms, owner, src, dst, bonds = inputs
        h = self.atom(atoms)
        for bond, send, update, norm in zip(self.bond, self.send, self.update, self.norm):
            message = tf.nn.relu(tf.gather(send(h), src) + bond(bonds))
            pooled = tf.math.unsorted_segment_sum(message, dst, NODES)
            h = norm(h + update(tf.concat([h, pooled], 1)))
        return self.readout(tf.math.unsorted_segment_sum(h, owner, GRAPHS) / 20.0)[:, 0]


def masked_loss(model, batch):
    *graph, target, weight = batch
    error = tf.square(model(graph) - target)
    return tf.reduce_sum(error * weight) / tf.reduce_sum(weight)


class Trainer:
    def __init__(self, steps):
        schedule = tf.keras.optimizers.schedules.CosineDecay(1e-3, steps, alpha=0.05)
        self.model, self.opt = MPNN(), tf.keras.optimizers.Adam(schedule)
        self.mean = tf.keras.metrics.Mean()

    @tf.function
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = masked_loss(self.model, batch)
        variables = self.model.trainable_variables
        grads, norm = tf.clip_by_global_norm(tape.gradient(loss, variables), 5.0)
        self.opt.apply_gradients(zip(grads, variables))
        self.mean.update_state(loss)
        return norm

    @tf.function
    def evaluate(self, batch):
        return masked_loss(self.model, batch)


def main(steps=240, report=60):
    tf.keras.utils.set_random_seed(21)
    rng = np.random.default_rng(21)
    train, valid = packed(rng, 80), packed(rng, 4)
    data = tf.data.Dataset.from_tensor_slices(train).shuffle(80, seed=3).repeat().prefetch(2)
    held_out = tf.data.Dataset.from_tensor_slices(valid)
    trainer, times = Trainer(steps), []
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for step, batch in enumerate(data.take(steps), 1):
            norm = trainer.train_step(batch)
            if step % report == 0:
                score = np.mean([trainer.evaluate(b).numpy() for b in held_out])
                print(f"{step:4d}  train {trainer.mean.result().numpy():.4f}  valid {score:.4f}  |g| {norm.numpy():.3f}")
                trainer.mean.reset_state()
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
        trainer.model.save_weights(os.path.join(folder, "last.weights.h5"))
    print(f"{1000 * np.median(times[5:]):.2f} ms per step")


if __name__ == "__main__":
    main()
