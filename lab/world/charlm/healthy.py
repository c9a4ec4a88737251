"""Character-level GPT on a synthetic language (balanced brackets and counting)."""
import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_corpus(n_chars, seed=0):
    rnd = random.Random(seed)
    out, size = [], 0
    while size < n_chars:
        if rnd.random() < 0.5:
            a = rnd.randint(0, 80)
            line = " ".join(str(a + i) for i in range(rnd.randint(3, 8)))
        else:
            depth = rnd.randint(1, 6)
            pick = [rnd.choice("()[]{}"[::2]) for _ in range(depth)]
            line = "".join(pick) + "".join({"(": ")", "[": "]", "{": "}"}[c] for c in reversed(pick))
        out.append(line)
        size += len(line) + 1
    return "\n".join(out)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    def __init__(self, vocab, block, dim=128, depth=3, heads=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        pos = torch.arange(block)[:, None] * torch.exp(-torch.arange(0, dim, 2) * math.log(1e4) / dim)
        self.register_buffer("pos", torch.stack([pos.sin(), pos.cos()], -1).flatten(1))
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleDict({
                "n1": nn.LayerNorm(dim), "att": Attention(dim, heads), "n2": nn.LayerNorm(dim),
                "ff": nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            }))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos[:idx.shape[1]]
        for blk in self.blocks:
            x = x + blk["att"](blk["n1"](x))
            x = x + blk["ff"](blk["n2"](x))
        return self.out(self.norm(x))


def get_batch(data, block, batch):
    starts = torch.randint(0, len(data) - block - 1, (batch, 1))
    chunk = data[starts + torch.arange(block + 1)]
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def validate(model, data, args, batches=4):
    model.eval()
    total = 0.0
    for _ in range(batches):
        x, y = get_batch(data, args.block, args.batch)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    model.train()
    return total.item() / batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    text = make_corpus(300_000)
    chars = sorted(set(text))
    lookup = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([lookup[c] for c in text])
    split = int(0.9 * len(data))
    train, valid = data[:split], data[split:]

    model = GPT(len(chars), args.block)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)
    start = time.time()
    for step in range(1, args.steps + 1):
        x, y = get_batch(train, args.block, args.batch)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)
        if step % 200 == 0:
            print(f"  valid {validate(model, valid, args):.4f}", flush=True)


if __name__ == "__main__":
    main()
