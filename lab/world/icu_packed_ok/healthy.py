"""Mortality risk from irregular-length ICU stays: bidirectional GRU on packed sequences."""
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


@dataclass
class Setup:
    patients: int = 2400
    signals: int = 24
    hidden: int = 48
    batch: int = 32
    epochs: int = 2
    lr: float = 2e-3


class Stays(Dataset):
    def __init__(self, cfg):
        g = torch.Generator().manual_seed(42)
        self.lengths = torch.randint(8, 49, (cfg.patients,), generator=g)
        severity = torch.rand(cfg.patients, generator=g)
        long = torch.randn(cfg.patients, 48, cfg.signals, generator=g)
        long[:, :, :6] += torch.linspace(-1, 1, 48).view(1, 48, 1) * severity.view(-1, 1, 1) * 2
        observed = torch.rand(long.shape, generator=g) < 0.7
        values = torch.cat([long * observed, observed.float()], dim=-1)
        self.stays = [v[:n] for v, n in zip(values, self.lengths.tolist())]
        self.labels = (severity + 0.15 * torch.randn(cfg.patients, generator=g) > 0.75).float()

    def __len__(self):
        return len(self.stays)

    def __getitem__(self, i):
        return self.stays[i], self.labels[i]


class LengthBuckets(Sampler):
    """Shuffles, then sorts within chunks of 20 batches so that padding stays small."""

    def __init__(self, lengths, batch):
        self.lengths, self.batch = lengths, batch

    def __len__(self):
        return len(self.lengths) // self.batch

    def __iter__(self):
        batches = []
        for chunk in torch.randperm(len(self.lengths)).split(20 * self.batch):
            chunk = chunk[self.lengths[chunk].argsort(descending=True)]
            batches += [b.tolist() for b in chunk.split(self.batch) if len(b) == self.batch]
        for i in torch.randperm(len(batches)).tolist():
            yield batches[i]


def collate(rows):
    xs, ys = zip(*rows)
    return pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]), torch.stack(ys)


class Risk(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.proj = nn.Linear(2 * cfg.signals, cfg.hidden)
        self.gru = nn.GRU(cfg.hidden, cfg.hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.score = nn.Sequential(nn.Linear(2 * cfg.hidden, 64), nn.Tanh(), nn.Linear(64, 1))
        self.out = nn.Linear(2 * cfg.hidden, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(torch.relu(self.proj(x)), lengths, batch_first=True)
        h, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        mask = torch.arange(h.shape[1]) < lengths[:, None]
        a = self.score(h).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(1)
        return self.out(torch.einsum("bt,bth->bh", a, h)).squeeze(-1)


def main(cfg=Setup()):
    torch.manual_seed(1)
    data = Stays(cfg)
    loader = DataLoader(data, batch_sampler=LengthBuckets(data.lengths, cfg.batch), collate_fn=collate)
    model = Risk(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, total_steps=cfg.epochs * len(loader))
    pos_weight = (1 - data.labels.mean()) / data.labels.mean()
    steps, t0 = 0, time.perf_counter()
    for epoch in range(cfg.epochs):
        total = torch.zeros(())
        for x, lengths, y in loader:
            loss = F.binary_cross_entropy_with_logits(model(x, lengths), y, pos_weight=pos_weight)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.detach()
            steps += 1
        print(f"epoch {epoch}  loss {total.item() / len(loader):.4f}")
    print(f"{steps} steps  {(time.perf_counter() - t0) / steps * 1000:.1f} ms/step")


if __name__ == "__main__":
    main()
