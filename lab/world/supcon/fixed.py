"""Supervised contrastive pre-training of product fingerprints (Khosla et al.)"""

import math
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    n_features: int = 256
    hidden: int = 768
    proj: int = 64
    classes: int = 16
    batch: int = 80
    steps: int = 100
    lr: float = 0.05
    tau: float = 0.1


def make_products(cfg, n=6000):
    centres = torch.randn(cfg.classes, cfg.n_features)
    y = torch.randint(cfg.classes, (n,))
    mix = torch.randn(cfg.n_features, cfg.n_features) / math.sqrt(cfg.n_features)
    x = centres[y] * 0.5 + torch.randn(n, cfg.n_features)
    return torch.tanh(x @ mix) + 0.3 * x, y


def two_views(x):
    def view():
        keep = (torch.rand_like(x) > 0.2).float()
        return x * keep + 0.1 * torch.randn_like(x)

    return torch.cat([view(), view()])


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(cfg.n_features, cfg.hidden),
            nn.GELU(),
            nn.Linear(cfg.hidden, cfg.hidden),
            nn.GELU(),
            nn.LayerNorm(cfg.hidden),
        )
        self.proj = nn.Linear(cfg.hidden, cfg.proj)

    def forward(self, x):
        return F.normalize(self.proj(self.body(x)), dim=-1)


class SupConLoss(nn.Module):
    def __init__(self, tau):
        super().__init__()
        self.tau = tau

    def forward(self, z, labels):
        sim = z @ z.t() / self.tau
        self_pair = torch.eye(len(z), dtype=torch.bool)
        log_prob = sim - torch.logsumexp(sim.masked_fill(self_pair, float("-inf")), 1, keepdim=True)
        positives = (labels[:, None] == labels[None]) & ~self_pair
        terms = (log_prob * positives).sum(1) / positives.sum(1)
        return -terms.mean()


def knn_accuracy(model, x, y, k=5):
    model.eval()
    with torch.no_grad():
        z = F.normalize(model.body(x), dim=-1)
    model.train()
    half = len(x) // 2
    near = (z[half:] @ z[:half].t()).topk(k).indices
    vote = y[:half][near].mode(1).values
    return (vote == y[half:]).float().mean().item()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.x, self.y = make_products(cfg)
        self.model = Encoder(cfg)
        self.criterion = SupConLoss(cfg.tau)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.steps)

    def one_step(self):
        idx = torch.randint(len(self.x), (self.cfg.batch,))
        views = two_views(self.x[idx])
        labels = self.y[idx].repeat(2)
        loss = self.criterion(self.model(views), labels)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.detach()

    def fit(self):
        spent = []
        for step in range(self.cfg.steps):
            begin = time.perf_counter()
            loss = self.one_step()
            spent.append(time.perf_counter() - begin)
            if step % 20 == 0:
                print(f"[{step:03d}] supcon {loss.item():.4f}")
        return spent


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(Config())
    spent = trainer.fit()
    print("knn accuracy %.3f" % knn_accuracy(trainer.model, trainer.x[:1000], trainer.y[:1000]))
    print("median step %.2f ms" % (1e3 * torch.tensor(spent[10:]).median().item()))
