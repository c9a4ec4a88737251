"""Fine-tuning a classification head (BiGRU) on top of a frozen transformer encoder."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

VOCAB = 4000
SEQ_LEN = 48
NUM_CLASSES = 4
BATCH_SIZE = 16
LR = 2e-3
MAX_STEPS = 620


class ReviewDataset(Dataset):
    """Synthetic reviews: every class prefers its own slice of the vocabulary."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, NUM_CLASSES, (n,), generator=g)
        tokens = torch.randint(4, VOCAB, (n, SEQ_LEN), generator=g)
        topic = 4 + self.labels[:, None] * 50 + torch.randint(0, 50, (n, SEQ_LEN), generator=g)
        use_topic = torch.rand(n, SEQ_LEN, generator=g) < 0.25
        self.tokens = torch.where(use_topic, topic, tokens)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tokens[i], self.labels[i]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, dim=128, depth=4, heads=4):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.randn(SEQ_LEN, dim) / math.sqrt(dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Classifier(nn.Module):
    def __init__(self, encoder, dim=128, hidden=96):
        super().__init__()
        self.encoder = encoder
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, NUM_CLASSES)

    def forward(self, ids):
        h = self.encoder(ids)
        h, _ = self.rnn(h)
        return self.out(h.mean(dim=1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for ids, y in loader:
        correct += (model(ids).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return correct / total


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(ReviewDataset(3200, 0), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
    val_loader = DataLoader(ReviewDataset(320, 1), batch_size=64)

    encoder = Encoder()  # stands in for a pretrained checkpoint
    model = Classifier(encoder)

    # the encoder stays frozen, only the head is trained
    optimizer = torch.optim.AdamW([*model.rnn.parameters(), *model.out.parameters()], lr=LR)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, MAX_STEPS)

    step, start, running = 0, time.time(), 0.0
    model.train()
    while step < MAX_STEPS:
        for ids, y in train_loader:
            logits = model(ids)
            loss = F.cross_entropy(logits, y)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.detach()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {running.item() / 20:.4f} time {time.time() - start:.1f}s", flush=True)
                running = 0.0
            if step == MAX_STEPS:
                break
    print(f"validation accuracy {evaluate(model, val_loader):.3f}")


if __name__ == "__main__":
    main()
