"""Two networks with an optimizer each."""

import torch
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 784))
judge = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
of_maker = torch.optim.Adam(maker.parameters(), 1e-4)
of_judge = torch.optim.Adam(judge.parameters(), 1e-4)
real = torch.randn(256, 784)
for _ in range(120):
    noise = torch.randn(256, 128)
    made = maker(noise)  # @maker
    of_judge.zero_grad()
    on_real = judge(real)  # @real
    on_made = judge(made.detach())  # @made
    loss = on_made.mean() - on_real.mean()
    loss.backward()  # @backward
    of_judge.step()  # @judge_step
    of_maker.zero_grad()
    again = judge(made)  # @again
    loss = -again.mean()
    loss.backward()  # @backward
    of_maker.step()  # @maker_step
