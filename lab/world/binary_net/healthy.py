"""Image classifier with binarised activations (straight-through estimator)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class Textures(Dataset):
    """uint8 images in memory; the crop and the flip are random for every read."""

    def __init__(self, n, train, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, CLASSES, n)
        basis = np.random.default_rng(42).normal(size=(CLASSES, 3, 8, 8))
        tiles = np.tile(basis[self.labels], (1, 1, 5, 5))
        noise = rng.normal(0, 1.5, (n, 3, 40, 40))
        self.images = np.clip(128 + 30 * (tiles + noise), 0, 255).astype(np.uint8)
        self.train = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        img = self.images[i]
        if self.train:
            dy, dx = torch.randint(0, 9, (2,)).tolist()
            img = img[:, dy : dy + 32, dx : dx + 32]
        else:
            img = img[:, 4:36, 4:36]
        return torch.from_numpy(np.ascontiguousarray(img)), int(self.labels[i])


class BinaryConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm = nn.BatchNorm2d(cin)
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)

    def forward(self, x):
        return self.conv(Sign.apply(self.norm(x)))


class Net(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, 2, 1, bias=False)
        self.b1, self.b2 = BinaryConv(ch, 2 * ch), BinaryConv(2 * ch, 4 * ch)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(4 * ch, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = F.max_pool2d(self.b1(x), 2)
        x = F.relu(self.b2(x)).mean((2, 3))
        return self.fc(self.drop(x))


def to_float(x):
    return x.float().sub_(128.0).div_(60.0)


@torch.no_grad()
def test(net, loader):
    net.eval()
    hits = torch.zeros((), dtype=torch.long)
    for x, y in loader:
        hits += (net(to_float(x)).argmax(1) == y).sum()
    net.train()
    return hits.item() / len(loader.dataset)


def main(epochs=3, batch=64):
    torch.manual_seed(6)
    train_set, test_set = Textures(4096, True, 0), Textures(512, False, 1)
    loader = DataLoader(
        train_set, batch, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True
    )
    test_loader = DataLoader(test_set, 256)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        total = torch.zeros(())
        for x, y in loader:
            loss = F.cross_entropy(net(to_float(x)), y, label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        sched.step()
        print(
            f"epoch {epoch} loss {total.item() / len(loader):.4f} test {test(net, test_loader):.3f}"
        )


if __name__ == "__main__":
    main()
