"""Light fine-tuning: reuse a conv backbone, train its last block and a new head.

python finetune_head.py --classes 12 --epochs 3
"""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(8, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(8, cout)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        return F.relu(h + self.skip(x))


class Backbone(nn.Module):
    out_dim = 128

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1, bias=False)
        self.layers = nn.Sequential(Block(32, 32), Block(32, 64, 2), Block(64, 128, 2))

    def forward(self, x):
        h = self.layers(F.relu(self.stem(x)))
        return h.mean(dim=(2, 3))


class Classifier(nn.Module):
    def __init__(self, backbone, n_classes, hidden=256):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(
            nn.Linear(backbone.out_dim, hidden), nn.ReLU(), nn.Linear(hidden, n_classes)
        )

    def forward(self, x):
        return self.head(self.backbone(x))


def fake_photos(n, n_classes, seed=0):
    """Coloured gratings, one orientation and tint per class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    yy, xx = np.mgrid[0:48, 0:48] / 48.0
    ang = (np.pi * y / n_classes)[:, None, None]
    wave = np.sin(18 * (xx * np.cos(ang) + yy * np.sin(ang)))
    tint = rng.random((n_classes, 3))[y]
    x = wave[:, None] * tint[:, :, None, None] + 0.3 * rng.standard_normal((n, 3, 48, 48))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def load_pretrained(seed=7):
    # stands in for torch.load("backbone.pt")
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    net = Backbone()
    torch.random.set_rng_state(state)
    return net


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--classes", type=int, default=12)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    x, y = fake_photos(1920, args.classes)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch, shuffle=True, drop_last=True)

    backbone = load_pretrained()
    model = Classifier(backbone, args.classes)
    # the stem and the early blocks stay as they are
    tuned = [*backbone.layers[-1].parameters(), *model.head.parameters()]
    optimizer = torch.optim.AdamW(tuned, lr=args.lr)

    step = 0
    for epoch in range(args.epochs):
        correct = seen = 0
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == labels).sum().item()
            seen += labels.numel()
            step += 1
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
        print(f"epoch {epoch} train acc {correct / seen:.3f}")


if __name__ == "__main__":
    main()
