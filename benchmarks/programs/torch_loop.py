"""A small network in PyTorch. Prints the time of its loop, from the first step to the last.

python benchmarks/programs/torch_loop.py LAYERS STEPS
"""

import sys
import time

import torch
from torch.nn import Linear, Sequential, Tanh

LAYERS, STEPS = map(int, sys.argv[1:])

torch.set_num_threads(1)
model = Sequential(*(m for _ in range(LAYERS) for m in (Linear(64, 64), Tanh())))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
batch = torch.randn(32, 64)
start = time.perf_counter()
for _ in range(STEPS):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
print(time.perf_counter() - start)
