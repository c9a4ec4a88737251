"""A synthetic citation network as a normalised sparse matrix."""

import numpy as np
import torch


def citation_graph(n=12000, classes=8, degree=12, feats=256, homophily=0.8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, classes, n))
    first = np.searchsorted(y, np.arange(classes + 1))
    src = np.repeat(np.arange(n), degree)
    lo, hi = first[y[src]], first[y[src] + 1]
    near = lo + (rng.random(src.size) * (hi - lo)).astype(np.int64)
    dst = np.where(rng.random(src.size) < homophily, near, rng.integers(0, n, src.size))
    x = 0.15 * rng.normal(size=(classes, feats))[y] + rng.normal(size=(n, feats))
    mask = rng.random(n) < 0.1
    return (
        normalized(torch.from_numpy(np.stack([src, dst])), n),
        torch.tensor(x, dtype=torch.float32),
        torch.from_numpy(y),
        torch.from_numpy(mask),
    )


def normalized(edges, n):
    loops = torch.arange(n).repeat(2, 1)
    edges = torch.cat([edges, edges.flip(0), loops], dim=1)
    a = torch.sparse_coo_tensor(edges, torch.ones(edges.size(1)), (n, n)).coalesce()
    row, col = a.indices()
    deg = torch.zeros(n).index_add_(0, row, a.values()).rsqrt()
    a = torch.sparse_coo_tensor(a.indices(), deg[row] * a.values() * deg[col], (n, n))
    return a.coalesce().to_sparse_csr()
