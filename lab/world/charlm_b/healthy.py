"""Character transformer on generated arithmetic lines, with weight averaging."""
import copy
import os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "600"))
CHARS = "0123456789+-=\n "
CTX, DIM, HEADS, LAYERS, BATCH = 64, 96, 4, 3, 24


def make_text(n_lines):
    rnd = random.Random(1)
    lines = []
    for _ in range(n_lines):
        a, b = rnd.randint(0, 99), rnd.randint(0, 99)
        lines.append(f"{a}+{b}={a + b}" if rnd.random() < 0.5 else f"{a}-{b}={a - b}")
    table = {c: i for i, c in enumerate(CHARS)}
    return torch.tensor([table[c] for c in "\n".join(lines)])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(CHARS), DIM), nn.Embedding(CTX, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, len(CHARS))

    def forward(self, x):
        h = self.tok(x) + self.pos.weight[:x.shape[1]]
        return self.head(self.norm(self.blocks(h)))


def sample_batch(data, gen):
    start = torch.randint(0, len(data) - CTX - 1, (BATCH,), generator=gen)
    seq = data[start[:, None] + torch.arange(CTX + 1)]
    return seq[:, :-1], seq[:, 1:]


@torch.no_grad()
def update_average(avg, model, decay):
    torch._foreach_lerp_(list(avg.parameters()), list(model.parameters()), 1 - decay)


@torch.no_grad()
def evaluate(model, data, batches=4):
    gen = torch.Generator().manual_seed(123)
    total = 0.0
    for _ in range(batches):
        x, y = sample_batch(data, gen)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    return total / batches


def main():
    torch.manual_seed(0)
    data = make_text(20000)
    split = int(0.95 * len(data))
    train, valid = data[:split], data[split:]
    model = CharLM()
    avg = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 50))
    gen = torch.Generator().manual_seed(2)

    for step in range(1, STEPS + 1):
        x, y = sample_batch(train, gen)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        update_average(avg, model, 0.99)
        if step % 100 == 0 or step == STEPS:
            print(f"step {step} loss {loss.item():.4f} averaged valid {evaluate(avg, valid):.4f}", flush=True)


if __name__ == "__main__":
    main()
