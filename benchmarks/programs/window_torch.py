"""A small network. With 'bare', torch.profiler watches five steps as its users ask it to."""

import sys
import time

import torch
from bare import report, watched

torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(16 * 28 * 28, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters())
images, labels = torch.randn(8, 3, 32, 32), torch.randint(10, (8,))


class Bare:
    def start(self):
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self.profiler.start()

    def step(self):
        self.profiler.step()

    def stop(self, folder):
        self.profiler.stop()
        self.profiler.export_chrome_trace(f"{folder}/trace.json.gz")


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()


report(watched(step, Bare() if "bare" in sys.argv else None, clock=time.perf_counter_ns))
