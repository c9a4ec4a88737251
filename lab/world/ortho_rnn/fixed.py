# Recurrent network with an orthogonal transition matrix on the copy-memory task.
import time
from argparse import ArgumentParser

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal


class ModReLU(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.empty(features).uniform_(-0.01, 0.01))

    def forward(self, h):
        return torch.sign(h) * torch.relu(h.abs() + self.bias)


class OrthogonalCell(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.inp = nn.Linear(n_in, n_hidden, bias=False)
        self.rec = orthogonal(nn.Linear(n_hidden, n_hidden, bias=False), orthogonal_map="matrix_exp")
        self.act = ModReLU(n_hidden)
        nn.init.kaiming_normal_(self.inp.weight, nonlinearity="relu")

    def forward(self, x, h):
        return self.act(self.inp(x) + self.rec(h))


class CopyNet(nn.Module):
    def __init__(self, symbols, n_hidden):
        super().__init__()
        self.embed = nn.Embedding(symbols + 2, 32)
        self.cell = OrthogonalCell(32, n_hidden)
        self.head = nn.Linear(n_hidden, symbols + 1)
        self.n_hidden = n_hidden

    def forward(self, tokens):
        x = self.embed(tokens).unbind(1)
        h = x[0].new_zeros(len(tokens), self.n_hidden)
        states = []
        with parametrize.cached():
            for x_t in x:
                h = self.cell(x_t, h)
                states.append(h)
        return self.head(torch.stack(states, 1))


def copy_batch(batch, symbols, n_copy, delay, generator):
    """`n_copy` symbols, a delay of blanks, a marker, and then the symbols are to be repeated."""
    seq = torch.randint(1, symbols + 1, (batch, n_copy), generator=generator)
    x = torch.zeros(batch, delay + 2 * n_copy, dtype=torch.long)
    x[:, :n_copy] = seq
    x[:, n_copy + delay - 1] = symbols + 1
    y = torch.zeros_like(x)
    y[:, -n_copy:] = seq
    return x, y


def main():
    ap = ArgumentParser()
    ap.add_argument("--hidden", type=int, default=96)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--symbols", type=int, default=8)
    ap.add_argument("--copy", type=int, default=5)
    ap.add_argument("--delay", type=int, default=15)
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--lr-orth", type=float, default=2e-4)
    cfg = ap.parse_args()

    torch.manual_seed(2)
    g = torch.Generator().manual_seed(3)
    net = CopyNet(cfg.symbols, cfg.hidden)
    orth = [p for n, p in net.named_parameters() if "parametrizations" in n]
    rest = [p for n, p in net.named_parameters() if "parametrizations" not in n]
    optim = torch.optim.RMSprop([{"params": rest, "lr": cfg.lr}, {"params": orth, "lr": cfg.lr_orth}])
    criterion = nn.CrossEntropyLoss()

    times, losses = [], []
    for step in range(cfg.steps):
        t0 = time.perf_counter()
        x, y = copy_batch(cfg.batch, cfg.symbols, cfg.copy, cfg.delay, g)
        logits = net(x)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - t0)
        if (step + 1) % 20 == 0:
            q = net.cell.rec.weight.detach()
            err = (q.T @ q - torch.eye(cfg.hidden)).abs().max().item()
            print(f"{step + 1:4d}  loss {sum(losses[-20:]) / 20:.4f}  |QtQ-I| {err:.1e}")
    print(f"median {1000 * sorted(times)[len(times) // 2]:.1f} ms/step")


if __name__ == "__main__":
    main()
