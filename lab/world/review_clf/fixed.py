"""Sentiment of (synthetic) product reviews with a small transformer encoder."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD = 0
VOCAB = 4000
MAX_LEN = 192


class Reviews(Dataset):
    """Token ids; words below 60 are praise, words from 60 to 119 are complaints."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            length = int(np.clip(rng.gamma(2.0, 14.0) + 6, 6, MAX_LEN))
            label = int(rng.random() < 0.5)
            words = rng.integers(120, VOCAB, length)
            k = max(1, length // 12)
            words[rng.choice(length, k, replace=False)] = rng.integers(1, 60, k) + 60 * (1 - label)
            self.rows.append((words.tolist(), label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(words) for words, _ in rows)
    ids = torch.full((len(rows), longest), PAD, dtype=torch.long)
    for i, (words, _) in enumerate(rows):
        ids[i, : len(words)] = torch.tensor(words)
    labels = torch.tensor([label for _, label in rows])
    return ids, labels


class Encoder(nn.Module):
    def __init__(self, d=96, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(MAX_LEN, d) * 0.02)
        layer = nn.TransformerEncoderLayer(
            d, heads, dim_feedforward=2 * d, dropout=0.0, batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, 2)

    def forward(self, ids):
        pad = ids == PAD
        h = self.tok(ids) + self.pos[: ids.size(1)]
        h = self.norm(self.enc(h, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).float()
        return self.out((h * keep).sum(1) / keep.sum(1))


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--train-size", type=int, default=2048)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main(a):
    torch.manual_seed(a.seed)
    loader = DataLoader(
        Reviews(a.train_size, a.seed),
        a.batch_size,
        shuffle=True,
        drop_last=True,
        collate_fn=collate,
    )
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    running, step = 0.0, 0
    for epoch in range(a.epochs):
        for ids, labels in loader:
            loss = criterion(model(ids), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
            step += 1
            if step % 15 == 0:
                print(f"step {step:4d} loss {running / 15:.4f}")
                running = 0.0


if __name__ == "__main__":
    main(parse())
