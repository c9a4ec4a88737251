"""Message passing network for a property of random molecule-like graphs (JAX)."""
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

NUM_GRAPHS = 3000
BATCH = 32
HIDDEN = 128
ROUNDS = 3
ATOM_TYPES = 8
LR = 1e-3
STEPS = 950


def random_molecule(rng):
    n = int(rng.integers(8, 24))
    atoms = rng.integers(0, ATOM_TYPES, n)
    parent = [(i, int(rng.integers(max(0, i - 4), i))) for i in range(1, n)]
    rings = [tuple(rng.choice(n, 2, replace=False)) for _ in range(int(rng.integers(0, 4)))]
    e = np.array(parent + rings, dtype=np.int32)
    senders = np.concatenate([e[:, 0], e[:, 1]])
    receivers = np.concatenate([e[:, 1], e[:, 0]])
    pair = (atoms[senders] == atoms[receivers]).sum() / 2
    target = 0.1 * atoms.sum() / ATOM_TYPES + 0.3 * pair + 0.05 * rng.normal()
    return atoms.astype(np.int32), senders, receivers, np.float32(target)


def round_up(n, multiple):
    return int(np.ceil(n / multiple) * multiple)


def padded_sizes(n_nodes, n_edges):
    return round_up(n_nodes + 1, 640), round_up(n_edges, 1536)


def collate(graphs):
    n_nodes = sum(len(g[0]) for g in graphs)
    n_edges = sum(len(g[1]) for g in graphs)
    pad_nodes, pad_edges = padded_sizes(n_nodes, n_edges)
    atoms = np.zeros(pad_nodes, np.int32)
    graph_id = np.full(pad_nodes, BATCH, np.int32)
    senders = np.full(pad_edges, pad_nodes - 1, np.int32)
    receivers = np.full(pad_edges, pad_nodes - 1, np.int32)
    node = edge = 0
    for i, (a, s, r, _) in enumerate(graphs):
        atoms[node:node + len(a)] = a
        graph_id[node:node + len(a)] = i
        senders[edge:edge + len(s)] = s + node
        receivers[edge:edge + len(r)] = r + node
        node += len(a)
        edge += len(s)
    targets = np.array([g[3] for g in graphs], np.float32)
    return atoms, senders, receivers, graph_id, targets


def dense(key, i, o):
    return {"w": jax.random.normal(key, (i, o)) * (2.0 / i) ** 0.5, "b": jnp.zeros((o,))}


def init_params(key):
    k = iter(jax.random.split(key, 2 * ROUNDS + 4))
    return {
        "embed": jax.random.normal(next(k), (ATOM_TYPES, HIDDEN)) * 0.3,
        "message": [dense(next(k), 2 * HIDDEN, HIDDEN) for _ in range(ROUNDS)],
        "update": [dense(next(k), 2 * HIDDEN, HIDDEN) for _ in range(ROUNDS)],
        "read1": dense(next(k), HIDDEN, HIDDEN),
        "read2": dense(next(k), HIDDEN, 1),
    }


def apply(p, x):
    return x @ p["w"] + p["b"]


def predict(params, atoms, senders, receivers, graph_id):
    h = params["embed"][atoms]
    for msg, upd in zip(params["message"], params["update"]):
        m = jax.nn.relu(apply(msg, jnp.concatenate([h[senders], h[receivers]], axis=1)))
        agg = jax.ops.segment_sum(m, receivers, num_segments=h.shape[0])
        h = h + jax.nn.relu(apply(upd, jnp.concatenate([h, agg], axis=1)))
    h = jax.nn.relu(apply(params["read1"], h))
    pooled = jax.ops.segment_sum(h, graph_id, num_segments=BATCH + 1)[:BATCH]
    return apply(params["read2"], pooled)[:, 0]


def loss_fn(params, batch):
    *graph, targets = batch
    return jnp.mean((predict(params, *graph) - targets) ** 2)


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(params, opt, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["nu"], grads)
    t = opt["t"] + 1
    c1, c2 = 1 - 0.9 ** t, 1 - 0.999 ** t
    params = jax.tree.map(lambda p, m, v: p - LR * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), params, mu, nu)
    return params, {"mu": mu, "nu": nu, "t": t}, loss


def main():
    rng = np.random.default_rng(0)
    graphs = sorted((random_molecule(rng) for _ in range(NUM_GRAPHS)), key=lambda g: len(g[0]))
    params = init_params(jax.random.PRNGKey(0))
    opt = {
        "mu": jax.tree.map(jnp.zeros_like, params),
        "nu": jax.tree.map(jnp.zeros_like, params),
        "t": jnp.zeros(()),
    }
    print(f"training on {NUM_GRAPHS} graphs", flush=True)
    start = time.time()
    for step in range(1, STEPS + 1):
        # curriculum: begin with the smallest quarter, admit larger molecules as training goes on
        pool = int(NUM_GRAPHS * min(1.0, 0.25 + step / STEPS))
        batch = collate([graphs[i] for i in rng.choice(pool, BATCH, replace=False)])
        params, opt, loss = train_step(params, opt, batch)
        if step % 25 == 0:
            print(f"step {step} mse {float(loss):.4f} elapsed {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
