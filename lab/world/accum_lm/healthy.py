"""Byte-level language model, bf16 autocast, accumulation over micro-batches.

Usage: python accum_lm.py [--updates 80] [--accum 2]
"""

import argparse
import math
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def get_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--updates", type=int, default=90)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--micro", type=int, default=8)
    p.add_argument("--ctx", type=int, default=64)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--fp32", action="store_true")
    return p.parse_args()


def arithmetic_text(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 100, (2, n))
    text = "".join(f"{i}+{j}={i + j};" for i, j in zip(a, b))
    return torch.tensor(list(text.encode()), dtype=torch.long)


class Block(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(h.transpose(1, 2).reshape(B, L, D))
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, dim, ctx, layers=3, vocab=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.register_buffer("place", torch.arange(ctx), persistent=False)
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tok(x) + self.pos(self.place))))


class Batches:
    def __init__(self, text, size, ctx, seed):
        self.windows = text.unfold(0, ctx + 1, 1)
        self.size, self.gen = size, torch.Generator().manual_seed(seed)

    def __call__(self):
        w = self.windows[torch.randint(len(self.windows), (self.size,), generator=self.gen)]
        return w[:, :-1], w[:, 1:]


def param_groups(model, decay=0.1):
    return [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]


def main():
    args = get_args()
    torch.manual_seed(0)
    batches = Batches(arithmetic_text(), args.micro, args.ctx, seed=1)
    model = LM(args.dim, args.ctx)
    opt = torch.optim.AdamW(param_groups(model), lr=args.lr, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / 10, 0.5 * (1 + math.cos(math.pi * s / args.updates)))
    )
    amp = nullcontext() if args.fp32 else torch.autocast("cpu", dtype=torch.bfloat16)

    for update in range(1, args.updates + 1):
        total = torch.zeros(())
        for _ in range(args.accum):
            x, y = batches()
            with amp:
                logits = model(x)
            loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten()) / args.accum
            loss.backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=True)
        if update % 10 == 0:
            print(f"update {update:3d} loss {total.item():.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
