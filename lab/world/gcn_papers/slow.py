"""Semi-supervised node classification with a graph convolutional net (plain JAX)."""
import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def citation_graph(n, n_classes, n_feats, avg_degree, seed):
    """Planted-partition graph with bag-of-words node features."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, n_classes, n)
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(n_classes + 1))
    m = n * avg_degree // 2
    src = rng.integers(0, n, m)
    same = rng.random(m) < 0.75
    lo, hi = bounds[label[src]], bounds[label[src] + 1]
    mate = order[(lo + rng.random(m) * (hi - lo)).astype(int)]
    dst = np.where(same, mate, rng.integers(0, n, m))
    keep = src != dst
    pairs = np.unique(np.stack([np.minimum(src, dst), np.maximum(src, dst)])[:, keep], axis=1)
    words = rng.dirichlet(np.full(n_feats, 0.15), n_classes)
    x = np.stack([rng.multinomial(18, 0.5 * words[c] + 0.5 / n_feats) for c in label])
    x = x / np.maximum(x.sum(1, keepdims=True), 1)
    return x.astype(np.float32), label.astype(np.int32), pairs.astype(np.int32)


def normalized_edges(pairs, n):
    """Both directions plus self loops, with symmetric normalisation."""
    loops = np.arange(n, dtype=np.int32)
    src = np.concatenate([pairs[0], pairs[1], loops])
    dst = np.concatenate([pairs[1], pairs[0], loops])
    deg = np.bincount(dst, minlength=n)
    weight = 1.0 / np.sqrt(deg[src] * deg[dst])
    return src, dst, weight.astype(np.float32)


def build_graph(pairs, n):
    src, dst, weight = normalized_edges(pairs, n)
    adj = np.zeros((n, n), np.float32)
    adj[dst, src] = weight
    return jnp.asarray(adj)


def propagate(graph, h):
    return graph @ h


def glorot(key, n_in, n_out):
    lim = np.sqrt(6.0 / (n_in + n_out))
    return jax.random.uniform(key, (n_in, n_out), minval=-lim, maxval=lim)


def init_params(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [{"w": glorot(k, a, b), "b": jnp.zeros(b)} for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def forward(params, graph, x, key=None, rate=0.5):
    h = x
    for i, layer in enumerate(params):
        if key is not None:
            key, sub = jax.random.split(key)
            h = h * jax.random.bernoulli(sub, 1 - rate, h.shape) / (1 - rate)
        h = propagate(graph, h @ layer["w"]) + layer["b"]
        if i + 1 < len(params):
            h = jax.nn.relu(h)
    return h


def masked_xent(params, graph, x, y, mask, key):
    logp = jax.nn.log_softmax(forward(params, graph, x, key))
    nll = -jnp.take_along_axis(logp, y[:, None], axis=1)[:, 0]
    decay = sum(jnp.sum(layer["w"] ** 2) for layer in params[:1])
    return jnp.sum(nll * mask) / jnp.sum(mask) + 2.5e-4 * decay


@partial(jax.jit, static_argnames="lr")
def train_step(params, opt, graph, x, y, mask, key, lr):
    loss, grads = jax.value_and_grad(masked_xent)(params, graph, x, y, mask, key)
    t = opt["t"] + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, opt["m"], grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, opt["v"], grads)
    params = jax.tree.map(
        lambda p, a, b: p - lr * (a / (1 - 0.9 ** t)) / (jnp.sqrt(b / (1 - 0.999 ** t)) + 1e-8),
        params, m, v)
    return params, {"m": m, "v": v, "t": t}, loss


@jax.jit
def accuracy(params, graph, x, y, mask):
    pred = jnp.argmax(forward(params, graph, x), axis=1)
    return jnp.sum((pred == y) * mask) / jnp.sum(mask)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=2400)
    ap.add_argument("--features", type=int, default=300)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--classes", type=int, default=6)
    ap.add_argument("--degree", type=int, default=5)
    ap.add_argument("--epochs", type=int, default=240)
    ap.add_argument("--lr", type=float, default=0.01)
    args = ap.parse_args()

    x, y, pairs = citation_graph(args.nodes, args.classes, args.features, args.degree, seed=0)
    graph = build_graph(pairs, args.nodes)
    rng = np.random.default_rng(1)
    split = rng.permutation(args.nodes)
    train_mask = np.zeros(args.nodes, np.float32)
    val_mask = np.zeros(args.nodes, np.float32)
    train_mask[split[:240]] = 1
    val_mask[split[240:740]] = 1
    x, y, train_mask, val_mask = map(jnp.asarray, (x, y, train_mask, val_mask))

    params = init_params(jax.random.key(0), [args.features, args.hidden, args.hidden, args.classes])
    opt = {"m": jax.tree.map(jnp.zeros_like, params), "v": jax.tree.map(jnp.zeros_like, params),
           "t": jnp.zeros((), jnp.int32)}
    key, best, times = jax.random.key(42), 0.0, []
    for epoch in range(args.epochs):
        start = time.perf_counter()
        key, sub = jax.random.split(key)
        params, opt, loss = train_step(params, opt, graph, x, y, train_mask, sub, args.lr)
        loss.block_until_ready()
        times.append(time.perf_counter() - start)
        if (epoch + 1) % 20 == 0:
            acc = float(accuracy(params, graph, x, y, val_mask))
            best = max(best, acc)
            print(f"epoch {epoch + 1} loss {float(loss):.4f} val acc {acc:.3f} best {best:.3f}", flush=True)
    print(f"{1000 * np.median(times[5:]):.2f} ms/step")


if __name__ == "__main__":
    main()
