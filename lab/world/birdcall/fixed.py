"""Bird call classification from short log-mel patches (small residual CNN)."""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "500"))
N_CLASSES, N_MELS, FRAMES, BATCH = 8, 40, 64, 48


class CallDataset(Dataset):
    """Keeps one float32 patch per recording, as the feature extractor wrote them."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        t = np.linspace(0, 1, FRAMES, dtype=np.float32)
        mel = np.arange(N_MELS, dtype=np.float32)[:, None]
        self.patches, self.labels = [], []
        for _ in range(n):
            c = int(rng.integers(N_CLASSES))
            centre = 8 + 3 * c + 5 * np.sin(2 * np.pi * (1 + c % 4) * t + rng.uniform(0, 6))
            patch = np.exp(-0.5 * ((mel - centre[None]) / 2.0) ** 2)
            patch = patch + 0.5 * rng.standard_normal((N_MELS, FRAMES))
            self.patches.append(patch.astype(np.float32))
            self.labels.append(c)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        patch = self.patches[i]
        shift = np.random.randint(-4, 5)
        patch = np.roll(patch, shift, axis=1)
        patch = (patch - patch.mean()) / (patch.std() + 1e-5)
        return patch[None], self.labels[i]


def collate(batch):
    patches = [patch for patch, _ in batch]
    labels = [label for _, label in batch]
    x = torch.from_numpy(np.stack(patches))
    y = torch.tensor(labels, dtype=torch.long)
    return x, y


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(1, 8, 2), Block(8, 16, 2), Block(16, 32, 2))
        self.head = nn.Linear(32, N_CLASSES)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = total = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return hits / total


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    train = DataLoader(CallDataset(2400, 1), BATCH, shuffle=True, drop_last=True, collate_fn=collate)
    valid = DataLoader(CallDataset(192, 2), BATCH, collate_fn=collate)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=max(STEPS, 10) + 1)

    step, running = 0, 0.0
    while step < STEPS:
        for x, y in train:
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running = running + 0.05 * (loss.detach() - running)
            step += 1
            if step % 100 == 0 or step == STEPS:
                print(f"step {step} loss {float(running):.4f}", flush=True)
            if step >= STEPS:
                break
    print(f"valid accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
