"""Programs whose marked lines sleep, and note for how long, so that they know their own lines.

Each program calls `boundary()` where a step ends. `nap` belongs to no file of the program, so its
time is that of the line that calls it.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Nap = tuple[int, int, int]
    """Line of the program, start and end in ns by `time.perf_counter_ns`."""

_NAP = """
def nap(units):
    begin = clock()
    sleep(units * 0.001)
    naps.append((caller(1).f_lineno, begin, clock()))
"""


def run(name: str, path: str, boundary: Callable[[], None]) -> list[Nap]:
    """Run a program in this process; returns what its lines have noted.

    Args:
        name: Its name.
        path: Its file.
        boundary: Called where a step ends.
    """
    naps: list[Nap] = []
    known = {"sleep": time.sleep, "clock": time.perf_counter_ns, "caller": sys._getframe}
    spaces: dict[str, Any] = {"naps": naps, **known}
    exec(compile(_NAP, "<nap>", "exec"), spaces)  # noqa: S102 - no file of the program
    program = {"nap": spaces["nap"], "boundary": boundary, "__name__": "program"}
    exec(compile(HEAD + PROGRAMS[name], path, "exec"), program)  # noqa: S102 - from above
    return naps


HEAD = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        nap(4)
        return gradient * 2


def slow_hook(gradient):
    nap(3)
    return gradient


model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""

PROGRAMS: dict[str, str] = {
    "plain": """
for number in range(4):
    x = torch.randn(4, 8)
    nap(3)
    loss = model(x).square().mean()
    nap(5)
    loss.backward()
    optimizer.step()
    boundary()
    nap(2)
    optimizer.zero_grad()
""",
    "function": """
def loss_of(x):
    nap(4)
    return model(x).square().mean()

def train():
    for number in range(4):
        nap(2)
        loss_of(torch.randn(4, 8)).backward()
        optimizer.step()
        boundary()
        optimizer.zero_grad()

train()
""",
    "hooks": """
for number in range(4):
    y = model(torch.randn(4, 8))
    y.register_hook(slow_hook)
    nap(2)
    y.square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "custom backward": """
for number in range(4):
    nap(3)
    Slow.apply(model(torch.randn(4, 8))).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "reentrant checkpoint": """
def part(x):
    nap(2)
    return model(x)

for number in range(4):
    x = torch.randn(4, 8, requires_grad=True)
    nap(3)
    checkpoint(part, x, use_reentrant=True).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "checkpoint": """
def part(x):
    nap(3)
    return model(x)

for number in range(4):
    nap(2)
    checkpoint(part, torch.randn(4, 8), use_reentrant=False).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "loader": """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, number):
        nap(1)
        return torch.full((8,), float(number))

for batch in torch.utils.data.DataLoader(Data(), batch_size=4):
    nap(3)
    model(batch).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "accumulation": """
for number in range(4):
    for part in range(3):
        nap(1)
        loss = model(torch.randn(4, 8)).square().mean() / 3
        loss.backward()
    nap(4)
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "generator": """
def batches():
    while True:
        nap(3)
        yield torch.randn(4, 8)

source = batches()
for number in range(4):
    x = next(source)
    model(x).square().mean().backward()
    nap(2)
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "exceptions": """
def fails():
    nap(2)
    raise ValueError

for number in range(4):
    try:
        fails()
    except ValueError:
        nap(3)
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
    "module and optimizer": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, x):
        nap(4)
        return self.linear(x)

class Slower(torch.optim.SGD):
    def step(self, closure=None):
        nap(2)
        return super().step(closure)

block = Block()
optimizer = Slower(block.parameters(), lr=0.01)
for number in range(4):
    block(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    boundary()
    optimizer.zero_grad()
""",
}
