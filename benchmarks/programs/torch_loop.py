"""A tiny model and waiting on the clock. Prints each step's time in ns."""

import sys
import time

import torch

LENGTH_NS = int(float(sys.argv[1]) * 1e6)
STEPS = int(sys.argv[2])

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
batch = torch.randn(4, 8)
times = []
for _ in range(STEPS):
    start = time.perf_counter_ns()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    worked = time.perf_counter_ns()
    while time.perf_counter_ns() - worked < LENGTH_NS:
        pass
    optimizer.step()
    times.append(time.perf_counter_ns() - start)
print(*times)
