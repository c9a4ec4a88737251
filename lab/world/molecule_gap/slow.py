"""Graph network regressing a property of small random molecules."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ATOMS = 20
KINDS = 6
MOLECULES = 1500
BATCH = 64
STEPS = 400


class Molecules:
    """Chains with a few ring closures; every graph has the same atom count."""

    def __init__(self, count, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.kind = torch.randint(0, KINDS, (count, ATOMS), generator=self.gen)
        self.adj = torch.stack([self._bonds() for _ in range(count)])
        self.target = self._property()

    def _bonds(self):
        a = torch.eye(ATOMS)
        i = torch.arange(ATOMS - 1)
        a[i, i + 1] = 1
        ring = torch.randint(0, ATOMS, (4, 2), generator=self.gen)
        a[ring[:, 0], ring[:, 1]] = 1
        a = ((a + a.T) > 0).float()
        d = a.sum(1).rsqrt()
        return d[:, None] * a * d[None]

    def _property(self):
        charge = torch.linspace(-1, 1, KINDS)[self.kind]
        pair = torch.einsum("bi,bij,bj->b", charge, self.adj, charge)
        second = torch.einsum("bi,bij,bjk,bk->b", charge, self.adj, self.adj, charge)
        return (pair - second) * 0.5

    def sample(self, n):
        i = torch.randint(0, len(self.kind), (n,), generator=self.gen)
        return self.kind[i], self.adj[i], self.target[i]


def collate(kind, adj):
    nodes = kind.reshape(-1)
    links = torch.block_diag(*adj)
    graph = torch.arange(len(kind)).repeat_interleave(ATOMS)
    return nodes, links, graph


class GraphLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.neigh = nn.Linear(width, width)
        self.self_ = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def gather(self, links, h):
        return links @ h

    def forward(self, h, links):
        m = self.neigh(self.gather(links, h)) + self.self_(h)
        return h + F.silu(self.norm(m))


class GapNet(nn.Module):
    def __init__(self, width=96, depth=4):
        super().__init__()
        self.embed = nn.Embedding(KINDS, width)
        self.layers = nn.ModuleList(GraphLayer(width) for _ in range(depth))
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, nodes, links, graph):
        h = self.embed(nodes)
        for layer in self.layers:
            h = layer(h, links)
        pooled = torch.zeros(int(graph[-1]) + 1, h.shape[1]).index_add(0, graph, h)
        return self.out(pooled / ATOMS)[:, 0]


def evaluate(net, data, n=192):
    with torch.no_grad():
        kind, adj, y = data.sample(n)
        errs = [F.l1_loss(net(*collate(k, a)), t) for k, a, t in
                zip(kind.split(BATCH), adj.split(BATCH), y.split(BATCH))]
    return torch.stack(errs).mean().item()


def main():
    torch.manual_seed(9)
    train, test = Molecules(MOLECULES, 1), Molecules(300, 2)
    net = GapNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    start = time.time()
    for step in range(1, STEPS + 1):
        kind, adj, y = train.sample(BATCH)
        pred = net(*collate(kind, adj))
        loss = F.smooth_l1_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step:4d} loss {loss.item():.4f} test {evaluate(net, test):.3f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
