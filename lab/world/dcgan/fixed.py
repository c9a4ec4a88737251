"""DCGAN on synthetic 32x32 'blob' images. Adapted from the PyTorch DCGAN example."""
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

manualSeed = 999
random.seed(manualSeed)
torch.manual_seed(manualSeed)

batch_size = 32
nz = 64
ngf = 48
ndf = 16
nc = 3
lr = 0.0002
beta1 = 0.5
num_steps = 140


def make_images(n=2048):
    """Coloured gaussian blobs on a dark background, range [-1, 1]."""
    g = torch.Generator().manual_seed(1)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
    cx = torch.rand(n, 1, 1, generator=g) - 0.5
    cy = torch.rand(n, 1, 1, generator=g) - 0.5
    r = 0.1 + 0.3 * torch.rand(n, 1, 1, generator=g)
    blob = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / r ** 2)
    color = torch.rand(n, 3, 1, 1, generator=g)
    return blob[:, None] * color * 2 - 1


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.Conv2d(ngf, nc, 3, 1, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


images = make_images()
netG = Generator()
netG.apply(weights_init)
netD = Discriminator()
netD.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optimizerD = optim.Adam(netD.parameters(), lr=lr, betas=(beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=lr, betas=(beta1, 0.999))
real_label = torch.ones(batch_size)
fake_label = torch.zeros(batch_size)

times = []
for i in range(num_steps):
    start = time.perf_counter()
    ############################
    # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
    ###########################
    real = images[torch.randint(len(images), (batch_size,))]
    noise = torch.randn(batch_size, nz, 1, 1)
    fake = netG(noise)
    output_real = netD(real)
    output_fake = netD(fake.detach())
    errD = criterion(output_real, real_label) + criterion(output_fake, fake_label)
    netD.zero_grad()
    errD.backward()
    optimizerD.step()

    ############################
    # (2) Update G network: maximize log(D(G(z)))
    ###########################
    output = netD(fake)
    errG = criterion(output, real_label)
    netG.zero_grad()
    errG.backward()
    optimizerG.step()

    times.append(time.perf_counter() - start)
    if i % 20 == 0:
        print(f"[{i}/{num_steps}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")

print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")
