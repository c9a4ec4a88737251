"""Texture classifier with a monitor for silent units."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 400
BATCH = 32
SIZE = 32
CLASSES = 8


def make_textures(n, gen):
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    grid = torch.linspace(0, 6.28, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    angle = labels.float() * (3.14 / CLASSES)
    freq = 2.0 + (labels % 3).float()
    phase = torch.rand(n, generator=gen) * 6.28
    u = torch.cos(angle)[:, None, None] * xx + torch.sin(angle)[:, None, None] * yy
    img = torch.sin(freq[:, None, None] * u + phase[:, None, None])
    img = img + 0.8 * torch.randn(n, SIZE, SIZE, generator=gen)
    return img[:, None], labels


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.conv(x))


class TextureNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = Block(1, width)
        self.stage1 = nn.Sequential(Block(width, width), Block(width, width))
        self.stage2 = nn.Sequential(Block(width, 2 * width), Block(2 * width, 2 * width))
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = F.max_pool2d(self.stage1(x), 2)
        x = F.max_pool2d(self.stage2(x), 2)
        return self.head(x.mean((2, 3)))


class SilentUnits:
    """Share of channels that never fire in a batch, per activation layer."""

    def __init__(self, model):
        self.share = {}
        self.handles = []
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                self.handles.append(module.register_forward_hook(self._record(name)))

    def _record(self, name):
        def hook(module, inputs, output):
            alive = (output.detach() > 0).float().mean((0, 2, 3))
            self.share[name] = (alive < 0.01).float().mean()
        return hook

    def report(self):
        out = {k: v.item() for k, v in self.share.items()}
        self.share = {}
        return sum(out.values()) / len(out)


def main():
    gen = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    images, labels = make_textures(2048, gen)
    model = TextureNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    history = []
    start = time.time()
    for step in range(1, STEPS + 1):
        pick = torch.randint(0, len(images), (BATCH,), generator=gen)
        watch = SilentUnits(model) if step % 20 == 0 else None
        logits = model(images[pick])
        loss = F.cross_entropy(logits, labels[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if watch is not None:
            history.append(watch.report())
        if step % 40 == 0:
            print(f"step {step:4d} loss {loss.item():.4f} silent {history[-1]:.3f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
