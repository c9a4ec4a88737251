"""DLRM-style ad conversion model with a running training AUC."""
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    rows: int = 240_000
    cardinalities: tuple = (1000, 500, 300, 200, 100, 50, 24, 12)
    n_dense: int = 8
    dim: int = 16
    batch_size: int = 512
    lr: float = 0.02
    passes: int = 1
    progress_every: int = 80


def build_rows(cfg):
    g = torch.Generator().manual_seed(0)
    cats = torch.stack([torch.randint(0, c, (cfg.rows,), generator=g)
                        for c in cfg.cardinalities], dim=1)
    dense = torch.randn(cfg.rows, cfg.n_dense, generator=g)
    logit = -1.5 + dense @ torch.randn(cfg.n_dense, generator=g) * 0.4
    for j, c in enumerate(cfg.cardinalities):
        logit += 0.5 * torch.randn(c, generator=g)[cats[:, j]]
    label = (torch.rand(cfg.rows, generator=g) < logit.sigmoid()).float()
    return cats, dense, label


def binary_auc(scores, labels):
    order = torch.argsort(scores)
    ranked = labels[order]
    ranks = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    n_pos = ranked.sum().double()
    n_neg = len(scores) - n_pos
    return ((ranks * ranked).sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


class RunningAUC:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores.detach())
        self.labels.append(labels)

    def compute(self):
        return binary_auc(torch.cat(self.scores), torch.cat(self.labels)).item()


class DLRM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, cfg.dim) for c in cfg.cardinalities)
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        self.bottom = nn.Sequential(nn.Linear(cfg.n_dense, 64), nn.ReLU(), nn.Linear(64, cfg.dim),
                                    nn.ReLU())
        fields = len(cfg.cardinalities) + 1
        i, j = torch.triu_indices(fields, fields, offset=1)
        self.register_buffer("pair_i", i)
        self.register_buffer("pair_j", j)
        self.top = nn.Sequential(nn.Linear(cfg.dim + len(i), 128), nn.ReLU(), nn.Linear(128, 64),
                                 nn.ReLU(), nn.Linear(64, 1))

    def forward(self, cats, dense):
        d = self.bottom(dense)
        vecs = torch.stack([d] + [t(cats[:, k]) for k, t in enumerate(self.tables)], dim=1)
        inter = torch.bmm(vecs, vecs.transpose(1, 2))[:, self.pair_i, self.pair_j]
        return self.top(torch.cat([d, inter], dim=1)).squeeze(1)


class Progress:
    """Prints a line from time to time and keeps the latest values for the summary."""

    def __init__(self, every):
        self.every = every
        self.latest = {}

    def __call__(self, step, **values):
        self.latest = values
        if step % self.every == 0:
            print(f"step {step} " + " ".join(f"{k} {v:.4f}" for k, v in values.items()))


@torch.no_grad()
def evaluate(model, cats, dense, label):
    model.eval()
    auc = RunningAUC()
    for c, d, y in zip(cats.split(4096), dense.split(4096), label.split(4096)):
        auc.update(model(c, d), y)
    model.train()
    return auc.compute()


def fit(cfg):
    torch.manual_seed(0)
    cats, dense, label = build_rows(cfg)
    cut = int(0.9 * cfg.rows)
    model = DLRM(cfg)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    progress, train_auc = Progress(cfg.progress_every), RunningAUC()
    step, spent = 0, 0.0
    for epoch in range(cfg.passes):
        tick = time.perf_counter()
        train_auc.reset()
        mean_loss = torch.zeros(())
        for idx in torch.randperm(cut).split(cfg.batch_size):
            y = label[idx]
            logit = model(cats[idx], dense[idx])
            loss = F.binary_cross_entropy_with_logits(logit, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            train_auc.update(logit, y)
            mean_loss.lerp_(loss.detach(), 0.02 if step > 50 else 1.0 / step)
            if step % cfg.progress_every == 0:
                progress(step, loss=mean_loss.item(), auc=train_auc.compute())
        spent += time.perf_counter() - tick
        test = evaluate(model, cats[cut:], dense[cut:], label[cut:])
        print(f"pass {epoch} train auc {train_auc.compute():.4f} test auc {test:.4f}")
    print(f"{step} steps, {1000 * spent / step:.2f} ms/step")


if __name__ == "__main__":
    fit(Config())
