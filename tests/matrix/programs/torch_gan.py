"""Two optimizers: a generator and a discriminator, each stepped once per batch."""

import torch
from torch import nn

torch.manual_seed(27)
generator = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64))
discriminator = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

for step in range(40):
    real = torch.randn(64, 64) * 0.5 + 1
    fake = generator(torch.randn(64, 16))

    discriminator_optimizer.zero_grad()
    d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    d_loss.backward()
    discriminator_optimizer.step()

    generator_optimizer.zero_grad()
    g_loss = criterion(discriminator(fake), ones)
    g_loss.backward()
    generator_optimizer.step()

    if step % 4 == 0:
        print(f"{step:02d} D {d_loss.item():.8f} G {g_loss.item():.8f}")
