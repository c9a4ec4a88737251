"""Training on the CPU of a machine that has a GPU, or one that starts a profiler of its own."""

from __future__ import annotations

import json
import sys

import torch

_STEPS = 60


def main():
    kind = sys.argv[1]
    width = int(sys.argv[2])
    on_gpu = kind != "cpu" and torch.cuda.is_available()
    device = "cuda" if on_gpu else "cpu"
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(width, width, device=device)
    for number in range(_STEPS):
        if kind == "abandoned" and number == 6:  # a window of stepwhy's is open, or about to be
            with torch.profiler.profile():
                model(inputs)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    used = torch.cuda.is_initialized()
    print(json.dumps({"loss": loss.item(), "context": used, "gpu": torch.cuda.is_available()}))


if __name__ == "__main__":
    main()
