"""Adapt a pretrained text encoder to intent classification with low-rank adapters (LoRA).

Rank-8 adapters sit on the query and value projections; adapters and the classification head are
trained, the encoder keeps its weights. Utterances are synthetic token sequences with 12 intents.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 3000
INTENTS = 12
LENGTH = 32
BATCH = 12
DIM = 128
LAYERS = 4
STEPS = 450


class LoRALinear(nn.Module):
    """A linear layer plus a scaled low-rank update."""

    def __init__(self, base, rank=8, alpha=16):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(rank))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, 4 * dim)
        self.ff2 = nn.Linear(4 * dim, dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.ff2(F.gelu(self.ff1(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, DIM)
        self.positions = nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList([EncoderLayer(DIM, 4) for _ in range(LAYERS)])

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return x


class IntentModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(DIM, INTENTS)

    def forward(self, ids):
        return self.head(self.encoder(ids).mean(1))


def load_encoder():
    """Stands in for reading the published checkpoint."""
    torch.manual_seed(1234)
    return Encoder()


def add_adapters(model, rank=8):
    for layer in model.encoder.layers:
        attention = layer.attention
        attention.query = LoRALinear(attention.query, rank)
        attention.value = LoRALinear(attention.value, rank)


def trainable_parameters(model):
    return [
        p for name, p in model.named_parameters() if "lora_" in name or name.startswith("head.")
    ]


def make_utterances(count, generator):
    """Filler tokens with a few tokens of the intent's own range strewn in."""
    labels = torch.randint(INTENTS, (count,), generator=generator)
    ids = torch.randint(INTENTS * 20, VOCAB, (count, LENGTH), generator=generator)
    hints = labels[:, None] * 20 + torch.randint(20, (count, LENGTH), generator=generator)
    use = torch.rand(count, LENGTH, generator=generator) < 0.2
    return torch.where(use, hints, ids), labels


@torch.no_grad()
def accuracy(model, ids, labels):
    model.eval()
    hits = (model(ids).argmax(1) == labels).float().mean().item()
    model.train()
    return hits


def main():
    model = IntentModel(load_encoder())
    add_adapters(model)
    generator = torch.Generator().manual_seed(5)
    ids, labels = make_utterances(4000, generator)
    val_ids, val_labels = make_utterances(300, generator)
    params = trainable_parameters(model)
    print(
        f"training {sum(p.numel() for p in params)} of "
        f"{sum(p.numel() for p in model.parameters())} parameters"
    )
    optimizer = torch.optim.AdamW(params, lr=2e-3, weight_decay=0.01)

    times = []
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        pick = torch.randint(len(ids), (BATCH,), generator=generator)
        loss = F.cross_entropy(model(ids[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 150 == 0:
            print(
                f"step {step:4d}  loss {loss.item():.4f}  "
                f"val accuracy {accuracy(model, val_ids, val_labels):.3f}"
            )

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
