"""Sequential recommendation in the manner of BERT4Rec on synthetic session data.

Users walk through clusters of items; 15 % of the positions of every sequence are masked and a
bidirectional transformer has to fill them in. Recall@10 is measured on the last item.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ITEMS = 1600
PAD, MASK = 0, ITEMS + 1
MAX_LEN = 40
BATCH = 24
DIM = 64
STEPS = 420
MASK_PROB = 0.15


def simulate_users(count, rng):
    """Each user likes a few of 60 clusters and moves to a near item inside a cluster."""
    clusters = np.array_split(np.arange(1, ITEMS + 1), 60)
    sequences = np.zeros((count, MAX_LEN), dtype=np.int64)
    for u in range(count):
        liked = rng.choice(60, size=3, replace=False)
        cluster, pos = clusters[liked[0]], rng.integers(0, 26)
        for t in range(MAX_LEN):
            if rng.random() < 0.1:
                cluster = clusters[liked[rng.integers(3)]]
            pos = (pos + rng.integers(1, 4)) % len(cluster)
            sequences[u, t] = cluster[pos]
    return torch.from_numpy(sequences)


def mask_batch(seq, generator):
    """Replaces random positions by MASK; the targets are PAD where nothing was masked."""
    chosen = torch.rand(seq.shape, generator=generator) < MASK_PROB
    chosen[:, -1] = True
    targets = torch.where(chosen, seq, torch.full_like(seq, PAD))
    inputs = torch.where(chosen, torch.full_like(seq, MASK), seq)
    return inputs, targets


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.norm2(x))


class Bert4Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(ITEMS + 2, DIM)
        self.position = nn.Embedding(MAX_LEN, DIM)
        nn.init.normal_(self.item.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)
        self.blocks = nn.ModuleList([Block(DIM, 4) for _ in range(3)])
        self.norm = nn.LayerNorm(DIM)
        self.transform = nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.LayerNorm(DIM))
        self.bias = nn.Parameter(torch.zeros(ITEMS + 1))

    def encode(self, seq):
        x = self.item(seq) + self.position.weight[: seq.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def score(self, hidden):
        return F.linear(self.transform(hidden), self.item.weight[: ITEMS + 1], self.bias)

    def loss(self, inputs, targets):
        hidden = self.encode(inputs)
        logits = self.score(hidden)
        return F.cross_entropy(logits.view(-1, ITEMS + 1), targets.view(-1), ignore_index=PAD)


@torch.no_grad()
def recall_at_10(model, sequences):
    model.eval()
    inputs = sequences.clone()
    inputs[:, -1] = MASK
    scores = model.score(model.encode(inputs)[:, -1])
    model.train()
    top = scores.topk(10, dim=1).indices
    return (top == sequences[:, -1:]).any(1).float().mean().item()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    train, valid = simulate_users(2000, rng), simulate_users(200, rng)
    generator = torch.Generator().manual_seed(3)
    model = Bert4Rec()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

    times = []
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        users = torch.randint(len(train), (BATCH,), generator=generator)
        inputs, targets = mask_batch(train[users], generator)
        loss = model.loss(inputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 140 == 0:
            print(
                f"step {step:4d}  loss {loss.item():.4f}  "
                f"recall@10 {recall_at_10(model, valid):.3f}"
            )

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
