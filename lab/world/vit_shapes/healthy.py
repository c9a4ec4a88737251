"""A small vision transformer on synthetic geometric shapes."""
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    image: int = 48
    patch: int = 6
    dim: int = 96
    depth: int = 4
    heads: int = 4
    classes: int = 8
    batch: int = 32
    samples: int = 1920
    epochs: int = 4
    lr: float = 6e-4
    seed: int = 0


def draw_shapes(n, size, classes, seed):
    """Rings, discs, crosses and stripes at random places; the class is kind x polarity."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    grid = torch.arange(size, dtype=torch.float32)
    c = torch.randint(size // 4, 3 * size // 4, (n, 2), generator=g).float()
    dy = (grid[None, :, None] - c[:, 0, None, None])
    dx = (grid[None, None, :] - c[:, 1, None, None])
    r = (dy ** 2 + dx ** 2).sqrt()
    kinds = torch.stack([(r < 9).float(), ((r > 7) & (r < 11)).float(),
                         ((dy.abs() < 2) | (dx.abs() < 2)).float() * (r < 12),
                         (((dy + dx) % 6) < 3).float() * (r < 12)])
    shape = kinds[y % 4, torch.arange(n)]
    img = shape * torch.where(y < classes // 2, 1.0, -1.0)[:, None, None]
    return img[:, None] + 0.5 * torch.randn(n, 1, size, size, generator=g), y


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.proj(a)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        n = (cfg.image // cfg.patch) ** 2
        self.patchify = nn.Conv2d(1, cfg.dim, cfg.patch, cfg.patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, cfg.dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, cfg.dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(cfg.dim, cfg.heads) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, x):
        x = self.patchify(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x)[:, 0]))


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    data = TensorDataset(*draw_shapes(cfg.samples, cfg.image, cfg.classes, cfg.seed))
    loader = DataLoader(data, batch_size=cfg.batch, shuffle=True, drop_last=True)
    model = ViT(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, total_steps=cfg.epochs * len(loader))
    step, start = 0, time.time()
    for epoch in range(cfg.epochs):
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
