"""Semi-supervised node classification on a synthetic citation graph with a three-layer GCN.

Papers of the same field cite each other more often; words are noisy indicators of the field. Only
a few labelled nodes per class, full-graph training with residual connections and dropout.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

NODES = 2000
CLASSES = 7
WORDS = 200
DEGREE = 8
HIDDEN = 64
STEPS = 600


def make_graph(generator):
    labels = torch.randint(CLASSES, (NODES,), generator=generator)
    order = labels.argsort()
    start = torch.searchsorted(labels[order].contiguous(), torch.arange(CLASSES))
    size = torch.bincount(labels, minlength=CLASSES)
    source = torch.arange(NODES).repeat_interleave(DEGREE)
    uniform = torch.rand(NODES * DEGREE, generator=generator)
    inside = order[start[labels[source]] + (uniform * size[labels[source]]).long()]
    anywhere = torch.randint(NODES, (NODES * DEGREE,), generator=generator)
    keep = torch.rand(NODES * DEGREE, generator=generator) < 0.7
    target = torch.where(keep, inside, anywhere)

    centres = (torch.rand(CLASSES, WORDS, generator=generator) < 0.06).float()
    rate = 0.02 + 0.10 * centres[labels]
    words = (torch.rand(NODES, WORDS, generator=generator) < rate).float()
    return torch.stack([source, target]), words, labels


def normalized_adjacency(edges):
    """D^-1/2 (A + I) D^-1/2 of the undirected graph as a CSR tensor."""
    loops = torch.arange(NODES).repeat(2, 1)
    index = torch.cat([edges, edges.flip(0), loops], dim=1)
    ones = torch.ones(index.size(1))
    adjacency = torch.sparse_coo_tensor(index, ones, (NODES, NODES)).coalesce()
    index = adjacency.indices()
    values = adjacency.values().clamp(max=1.0)
    degree = torch.zeros(NODES).index_add_(0, index[0], values)
    values = values / (degree[index[0]] * degree[index[1]]).sqrt()
    return torch.sparse_coo_tensor(index, values, (NODES, NODES)).coalesce().to_sparse_csr()


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(WORDS, HIDDEN)
        self.hidden = nn.ModuleList([nn.Linear(HIDDEN, HIDDEN) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN) for _ in range(2)])
        self.out = nn.Linear(HIDDEN, CLASSES)
        self.drop = nn.Dropout(0.5)

    def forward(self, adjacency, words):
        h = F.relu(adjacency @ self.inp(words))
        for linear, norm in zip(self.hidden, self.norms):
            h = h + F.relu(adjacency @ linear(self.drop(norm(h))))
        return self.out(self.drop(h))


def split_nodes(labels, generator, per_class=25):
    order = torch.randperm(NODES, generator=generator)
    train = torch.cat([order[labels[order] == c][:per_class] for c in range(CLASSES)])
    mask = torch.ones(NODES, dtype=torch.bool)
    mask[train] = False
    rest = order[mask[order]]
    return train, rest[:500], rest[500:]


@torch.no_grad()
def accuracy(model, adjacency, words, labels, nodes):
    model.eval()
    pred = model(adjacency, words)[nodes].argmax(1)
    model.train()
    return (pred == labels[nodes]).float().mean().item()


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(11)
    edges, words, labels = make_graph(generator)
    words = words / words.sum(1, keepdim=True).clamp(min=1)
    adjacency = normalized_adjacency(edges)
    train, valid, test = split_nodes(labels, generator)
    model = GCN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=5e-3)

    times = []
    best, kept = 0.0, None
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        logits = model(adjacency, words)
        loss = F.cross_entropy(logits[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 60 == 0:
            score = accuracy(model, adjacency, words, labels, valid)
            print(f"step {step:4d}  loss {loss.item():.4f}  val {score:.3f}")
            if score > best:
                best = score
                kept = {k: v.clone() for k, v in model.state_dict().items()}

    model.load_state_dict(kept)
    print(f"test accuracy {accuracy(model, adjacency, words, labels, test):.3f}")
    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
