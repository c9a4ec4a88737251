"""Small U-Net with the border-weighted loss."""

import shutil

import torch
import torch.nn.functional as F
from cells_data import CellFolder, make_folder
from torch import nn
from torch.utils.data import DataLoader


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.d1 = double_conv(1, base)
        self.d2 = double_conv(base, 2 * base)
        self.d3 = double_conv(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2)
        self.u2 = double_conv(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.u1 = double_conv(2 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up2(c), b], dim=1))
        a = self.u1(torch.cat([self.up1(b), a], dim=1))
        return self.out(a)


class Trainer:
    def __init__(self, root, epochs=12, batch_size=8, lr=2e-3):
        self.epochs = epochs
        gen = torch.Generator().manual_seed(3)
        self.loader = DataLoader(CellFolder(root), batch_size, shuffle=True, generator=gen)
        self.model = UNet()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)

    def train_step(self, batch):
        image, mask, weight = batch.split(1, dim=1)
        logits = self.model(image)
        loss = F.binary_cross_entropy_with_logits(logits, mask, weight=weight)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def fit(self):
        self.model.train()
        for epoch in range(self.epochs):
            total = torch.zeros(())
            for batch in self.loader:
                total += self.train_step(batch)
            print(f"epoch {epoch:2d} loss {total.item() / len(self.loader):.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    folder = make_folder(64)
    try:
        Trainer(folder).fit()
    finally:
        shutil.rmtree(folder)
