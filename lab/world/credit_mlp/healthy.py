"""Credit default model: categorical embeddings plus numeric columns, residual MLP."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=60000)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--blocks", type=int, default=3)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=12)
    return p.parse_args()


CARDS = [10, 50, 200, 7, 30, 1000]
N_NUM = 24


def make_table(args):
    gen = torch.Generator().manual_seed(args.seed)
    num = torch.randn(args.rows, N_NUM, generator=gen)
    cat = torch.stack([torch.randint(0, c, (args.rows,), generator=gen) for c in CARDS], 1)
    effect = [0.6 * torch.randn(c, generator=gen) for c in CARDS]
    score = num[:, 0] * num[:, 1] + torch.sin(2 * num[:, 2]) - 0.5 * num[:, 3]
    for j, table in enumerate(effect):
        score = score + table[cat[:, j]]
    label = (torch.rand(args.rows, generator=gen) < torch.sigmoid(score)).float()
    offsets = torch.tensor([0] + CARDS[:-1]).cumsum(0)
    return num, cat + offsets, label


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.fc2(F.silu(self.fc1(self.norm(x)))))


class CreditNet(nn.Module):
    def __init__(self, width, blocks, emb=12):
        super().__init__()
        self.emb = nn.Embedding(sum(CARDS), emb)
        self.inp = nn.Linear(N_NUM + emb * len(CARDS), width)
        self.blocks = nn.Sequential(*[ResBlock(width) for _ in range(blocks)])
        self.out = nn.Linear(width, 1)

    def forward(self, num, cat):
        x = torch.cat([num, self.emb(cat).flatten(1)], 1)
        return self.out(self.blocks(self.inp(x))).squeeze(1)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    num, cat, label = make_table(args)
    n_val = args.rows // 10
    train_rows = args.rows - n_val
    model = CreditNet(args.width, args.blocks)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    start, step = time.time(), 0
    for epoch in range(args.epochs):
        model.train()
        order = n_val + torch.randperm(train_rows)
        for idx in order.split(args.batch_size):
            logit = model(num[idx], cat[idx])
            loss = F.binary_cross_entropy_with_logits(logit, label[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 50 == 0:
                print(f"epoch {epoch} step {step:4d} loss {loss.item():.4f} time {time.time() - start:.1f}s",
                      flush=True)
            step += 1
    model.eval()
    with torch.no_grad():
        val = F.binary_cross_entropy_with_logits(model(num[:n_val], cat[:n_val]), label[:n_val])
    print(f"validation loss {val.item():.4f}")


if __name__ == "__main__":
    main()
