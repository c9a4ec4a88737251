"""Small GPT trained on synthetic words."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=512)
    p.add_argument("--context", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


def make_tokens(args, n=150_000):
    rng = np.random.default_rng(args.seed)
    phrases = rng.integers(0, args.vocab, (400, 6))
    pick = np.minimum((400 * rng.random(n // 6) ** 2).astype(int), 399)
    return torch.from_numpy(phrases[pick].reshape(-1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tok = nn.Embedding(args.vocab, args.dim)
        self.pos = nn.Parameter(torch.zeros(args.context, args.dim))
        self.blocks = nn.Sequential(*[Block(args.dim, args.heads) for _ in range(args.layers)])
        self.norm = nn.LayerNorm(args.dim)
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.tok(tokens) + self.pos[: tokens.size(1)]
        x = self.norm(self.blocks(x))
        logits = F.linear(x, self.tok.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    data = make_tokens(args)
    windows = data.unfold(0, args.context + 1, 1)
    model = GPT(args)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps, pct_start=0.1)
    gen = torch.Generator().manual_seed(args.seed)
    start = time.time()
    for step in range(args.steps):
        idx = torch.randint(0, windows.size(0), (args.batch_size,), generator=gen)
        batch = windows[idx]
        loss = model(batch[:, :-1], batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 25 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
