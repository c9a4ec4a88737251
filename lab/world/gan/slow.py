"""SNGAN-ish hinge GAN on synthetic 32x32 blobs (practice project)."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=240)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--nz", type=int, default=64)
parser.add_argument("--ngf", type=int, default=16)
parser.add_argument("--ndf", type=int, default=12)
parser.add_argument("--n_dis", type=int, default=2)
parser.add_argument("--lr", type=float, default=2e-4)
parser.add_argument("--seed", type=int, default=7)
opt = parser.parse_args()

torch.manual_seed(opt.seed)
np.random.seed(opt.seed)
torch.set_num_threads(1)  # shared box


class Blobs(Dataset):
    """Gaussian blobs at random places, values in [-1, 1]."""

    def __init__(self, n=2048, size=32):
        rng = np.random.RandomState(0)
        yy, xx = np.mgrid[0:size, 0:size]
        cy, cx = rng.uniform(6, size - 6, (2, n, 1, 1))
        s = rng.uniform(2, 6, (n, 1, 1))
        imgs = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * s**2))
        self.imgs = torch.from_numpy((imgs * 2 - 1).astype(np.float32)).unsqueeze(1)

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, i):
        return self.imgs[i]


class Generator(nn.Module):
    def __init__(self, nz, ngf):
        super().__init__()
        self.fc = nn.Linear(nz, ngf * 4 * 4 * 4)
        self.net = nn.Sequential(
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 4, ngf * 2, 3, 1, 1),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 2, ngf * 2, 3, 1, 1),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 2, ngf, 3, 1, 1),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.Conv2d(ngf, 1, 3, 1, 1),
            nn.Tanh(),
        )
        self.ngf = ngf

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.ngf * 4, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, ndf):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1),
            nn.LeakyReLU(0.2),
        )
        self.out = nn.Linear(ndf * 4 * 4 * 4, 1)

    def forward(self, x):
        return self.out(self.net(x).flatten(1)).squeeze(1)


def infinite(loader):
    while True:
        for x in loader:
            yield x


netG = Generator(opt.nz, opt.ngf)
netD = Discriminator(opt.ndf)
optG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.0, 0.9))
optD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.0, 0.9))

loader = infinite(DataLoader(Blobs(), batch_size=opt.batch_size, shuffle=True, drop_last=True))
fixed_z = torch.randn(16, opt.nz)

t0 = time.time()
for step in range(1, opt.steps + 1):
    # ---- discriminator ----
    for _ in range(opt.n_dis):
        real = next(loader)
        optD.zero_grad()
        z = torch.randn(real.size(0), opt.nz)
        fake = netG(z)
        out_real = netD(real)
        out_fake = netD(fake)
        errD = F.relu(1.0 - out_real).mean() + F.relu(1.0 + out_fake).mean()
        errD.backward()
        optD.step()

    # ---- generator ----
    optG.zero_grad()
    z = torch.randn(opt.batch_size, opt.nz)
    errG = -netD(netG(z)).mean()
    errG.backward()
    optG.step()

    if step % 30 == 0:
        print("[%d/%d] loss_D %.5f loss_G %.5f" % (step, opt.steps, errD.item(), errG.item()))
    if step % 80 == 0:
        netG.eval()
        with torch.no_grad():
            sample = netG(fixed_z)
        netG.train()
        print("sample mean %.4f std %.4f" % (sample.mean().item(), sample.std().item()))

print("done, %.2f ms/step" % ((time.time() - t0) / opt.steps * 1000))
