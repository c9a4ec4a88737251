# Fine-tuning the upper part of a spectra transformer on a small labelled set.
# Embedding and lower blocks are frozen, inputs are augmented in every step (so
# the frozen features cannot be stored).
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        return self.out(a.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class SpectraNet(nn.Module):
    def __init__(self, bins, patch, dim, depth, heads, classes):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(bins // patch, dim))
        self.lower = nn.ModuleList(Block(dim, heads) for _ in range(depth // 2))
        self.upper = nn.ModuleList(Block(dim, heads) for _ in range(depth - depth // 2))
        self.head = nn.Linear(dim, classes)

    def features(self, x):
        h = self.embed(x.unflatten(1, (-1, self.patch))) + self.pos
        for blk in self.lower:
            h = blk(h)
        return h

    def forward(self, x):
        with torch.no_grad():
            h = self.features(x)
        for blk in self.upper:
            h = blk(h)
        return self.head(h.mean(1))


def freeze_lower(model):
    frozen = [*model.embed.parameters(), model.pos, *model.lower.parameters()]
    for p in frozen:
        p.requires_grad_(False)
    model.lower.eval()
    return [p for p in model.parameters() if p.requires_grad]


def spectra(n, bins, classes, gen):
    grid = torch.linspace(0, 1, bins)
    lines = torch.rand(classes, 5, 1, generator=gen)
    templates = torch.exp(-(((grid - lines) / 0.015) ** 2)).sum(1)
    y = torch.randint(classes, (n,), generator=gen)
    gain = 0.5 + torch.rand(n, 1, generator=gen)
    return gain * templates[y] + 0.1 * torch.randn(n, bins, generator=gen), y


def augment(x, gen):
    gain = 0.8 + 0.4 * torch.rand(len(x), 1, generator=gen)
    return x * gain + 0.05 * torch.randn(x.shape, generator=gen)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=1e-3)
    a = ap.parse_args()
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    x, y = spectra(2000, 512, 10, gen)
    model = SpectraNet(512, 16, 96, 4, 4, 10)  # in real life: load_state_dict here
    trainable = freeze_lower(model)
    print(f"{sum(p.numel() for p in trainable)} trainable parameters")
    opt = torch.optim.AdamW(trainable, lr=a.lr, fused=True)
    times = []
    for step in range(a.steps):
        tic = time.perf_counter()
        i = torch.randint(len(x), (a.batch,), generator=gen)
        loss = F.cross_entropy(model(augment(x[i], gen)), y[i], label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        times.append(time.perf_counter() - tic)
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    times = torch.tensor(times[10:])
    print(f"median step {1e3 * times.median().item():.2f} ms")


if __name__ == "__main__":
    main()
