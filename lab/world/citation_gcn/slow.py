"""Semi-supervised node classification on a similarity graph, with a hand-written fused propagation op."""
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function

NODES, CLASSES, WORDS = 1800, 7, 500


class Propagate(Function):
    """out = beta * (A @ x) + (1 - beta) * x0, with a hand-derived backward."""

    @staticmethod
    def forward(ctx, adj, x, x0, beta):
        ctx.save_for_backward(adj, x)
        ctx.beta = beta
        return torch.addmm(x0, adj, x, beta=1 - beta, alpha=beta)

    @staticmethod
    def backward(ctx, grad_out):
        adj, x = ctx.saved_tensors
        scaled = ctx.beta * grad_out
        grad_adj = scaled @ x.t()
        grad_x = adj.t() @ scaled
        grad_x0 = (1 - ctx.beta) * grad_out
        return grad_adj, grad_x, grad_x0, None


class APPNP(nn.Module):
    def __init__(self, n_in, n_hidden, n_out, hops=6, beta=0.9, dropout=0.5):
        super().__init__()
        self.lin1 = nn.Linear(n_in, n_hidden)
        self.lin2 = nn.Linear(n_hidden, n_hidden)
        self.out = nn.Linear(n_hidden, n_out)
        self.hops, self.beta, self.dropout = hops, beta, dropout

    def forward(self, x, adj):
        x = F.relu(self.lin1(F.dropout(x, self.dropout, self.training)))
        x0 = F.relu(self.lin2(F.dropout(x, self.dropout, self.training)))
        h = x0
        for _ in range(self.hops):
            h = Propagate.apply(adj, h, x0, self.beta)
        return self.out(h)


def citation_like(seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (NODES,), generator=g)
    profile = torch.rand(CLASSES, WORDS, generator=g) * 0.04 + 0.01
    x = torch.bernoulli(profile[y], generator=g)
    # soft similarity graph: links within a class are stronger, every pair has some weight
    same = (y[:, None] == y[None, :]).float()
    w = torch.rand(NODES, NODES, generator=g) ** 8 * (0.15 + 0.85 * same)
    w = torch.maximum(w, w.t())
    w.fill_diagonal_(1.0)
    d = w.sum(1).rsqrt()
    return F.normalize(x, dim=1), d[:, None] * w * d[None, :], y


def main():
    torch.manual_seed(0)
    x, adj, y = citation_like()
    order = torch.randperm(NODES)
    train, test = order[:140], order[140:1140]

    model = APPNP(WORDS, 64, CLASSES)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    durations = []
    for epoch in range(1, 201):
        tic = time.perf_counter()
        model.train()
        loss = F.cross_entropy(model(x, adj)[train], y[train])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        durations.append(time.perf_counter() - tic)
        if epoch % 50 == 0:
            model.eval()
            with torch.no_grad():
                acc = (model(x, adj)[test].argmax(1) == y[test]).float().mean()
            print(f"epoch {epoch}  loss {loss.item():.4f}  test acc {acc.item():.3f}")
    print(f"{1e3 * torch.tensor(durations).median().item():.1f} ms per epoch (one step each)")


if __name__ == "__main__":
    main()
