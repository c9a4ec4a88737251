"""Node classification; Nesterov momentum written by hand as in the paper's appendix."""

import torch
import torch.nn.functional as F
from data import citation_graph
from net import GCN


class Nesterov:
    def __init__(self, params, lr, momentum=0.9, decay=5e-4):
        self.params = list(params)
        self.velocity = [torch.zeros_like(p) for p in self.params]
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def zero(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        grads = [p.grad for p in self.params]
        torch._foreach_add_(grads, self.params, alpha=self.decay)
        torch._foreach_mul_(self.velocity, self.momentum)
        torch._foreach_add_(self.velocity, grads)
        torch._foreach_add_(grads, self.velocity, alpha=self.momentum)
        torch._foreach_add_(self.params, grads, alpha=-self.lr)


def accuracy(model, adj, x, y, rows):
    model.eval()
    with torch.no_grad():
        hit = model(adj, x).argmax(1)[rows] == y[rows]
    model.train()
    return hit.float().mean().item()


def main(steps=200, lr=0.3):
    torch.manual_seed(4)
    adj, x, y, train = citation_graph()
    rows = train.nonzero().squeeze(1)
    model = GCN(x.size(1), 64, int(y.max()) + 1)
    opt = Nesterov(model.parameters(), lr)
    model.train()
    for step in range(1, steps + 1):
        loss = F.cross_entropy(model(adj, x)[rows], y[rows])
        opt.zero()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")
    print(f"test accuracy {accuracy(model, adj, x, y, ~train):.3f}")


if __name__ == "__main__":
    main()
