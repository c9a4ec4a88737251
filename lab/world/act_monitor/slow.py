# Regression of a simulated reactor yield with a deep MLP.
# I watch the activations because deeper versions of this died on me.
import argparse
import time
from collections import OrderedDict

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.act = nn.ReLU()
        self.down = nn.Linear(2 * dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class YieldNet(nn.Module):
    def __init__(self, n_in, dim, depth, drop=0.05):
        super().__init__()
        self.stem = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList(Block(dim, drop) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.stem(x)
        for b in self.blocks:
            h = b(h)
        return self.head(h).squeeze(-1)


class ActivationMonitor:
    """Keeps the latest statistics for each ReLU in the network."""

    def __init__(self, model):
        self.stats = OrderedDict()
        for name, mod in model.named_modules():
            if isinstance(mod, nn.ReLU):
                mod.register_forward_hook(self._make_hook(name))

    def _make_hook(self, name):
        def hook(mod, inputs, output):
            self.stats[name] = self._describe(output.detach())

        return hook

    @staticmethod
    def _describe(a):
        spread = a.std(0)
        top = a.flatten().kthvalue(int(0.99 * a.numel())).values
        return {
            "mean": a.mean(),
            "std": spread.mean(),
            "dead": (a.amax(0) == 0).float().mean(),
            "p99": top,
        }

    def lines(self):
        for name, st in self.stats.items():
            yield "   " + name + "  " + "  ".join(f"{k}={float(v):.3f}" for k, v in st.items())


def simulate(n, n_in, gen):
    x = torch.randn(n, n_in, generator=gen)
    w = torch.randn(n_in, 5, generator=gen) / n_in**0.5
    z = x @ w
    y = torch.tanh(z[:, 0]) * z[:, 1] + torch.sin(2 * z[:, 2]) + 0.3 * z[:, 3] ** 2
    return x, y + 0.05 * torch.randn(n, generator=gen)


def batches(x, y, size, gen):
    while True:
        perm = torch.randperm(len(x), generator=gen)
        for i in range(0, len(x) - size + 1, size):
            j = perm[i : i + size]
            yield x[j], y[j]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--dim", type=int, default=160)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--report-every", type=int, default=40)
    args = ap.parse_args()

    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    x, y = simulate(8192, 32, gen)
    net = YieldNet(32, args.dim, args.depth)
    monitor = ActivationMonitor(net)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    stream = batches(x, y, args.batch, gen)

    took = []
    for step in range(args.steps):
        start = time.perf_counter()
        xb, yb = next(stream)
        loss = nn.functional.smooth_l1_loss(net(xb), yb)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        took.append(time.perf_counter() - start)
        if step % args.report_every == 0:
            print(f"step {step} loss {loss.item():.4f}")
            print("\n".join(monitor.lines()))
    took = sorted(took[10:])
    print(f"median step {1e3 * took[len(took) // 2]:.2f} ms")


if __name__ == "__main__":
    main()
