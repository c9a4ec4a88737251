"""The training loop of the programs in this folder, on a GPU if there is one."""

import argparse
import time

import torch
import turn
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCKS = 5


def parser(doc, **defaults):
    """A parser with the options that all programs have, and some whole numbers of this one."""
    options = argparse.ArgumentParser(description=doc)
    options.add_argument("--steps", type=int, default=60)
    for name, value in defaults.items():
        options.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return options


def dense(width, layers, outputs=0):
    """Linear layers with an activation after each but the last."""
    hidden = [layer for _ in range(layers - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, outputs or width)).to(DEVICE)


def mixed(enabled=True):
    """Compute in bfloat16 where that is safe."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=enabled)


def start():
    """Make each run of a program the same, and wait for the GPU."""
    turn.take("torch._dynamo")  # which an optimizer imports
    torch.manual_seed(0)
    if DEVICE == "cpu":
        torch.set_num_threads(1)


def synchronise():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def run(step, options):
    """Call `step(number)`, which returns the loss, and print losses and times.

    The second half of the steps is timed, in blocks: the device has finished at the end of each.
    """
    block = max(options.steps // (2 * BLOCKS), 1)
    first, times, started = max(options.steps - BLOCKS * block, 0), [], None
    for number in range(options.steps):
        if number >= first and (number - first) % block == 0:
            synchronise()
            now = time.perf_counter()
            if started is not None:
                times.append((now - started) / block)
            started = now
        loss = step(number)
        if number == 0:
            first_loss = loss.detach().clone()
    synchronise()
    times.append((time.perf_counter() - started) / block)
    print(f"loss {float(first_loss):.6g} to {float(loss.detach()):.6g}")
    print("ms per step", *(f"{1000 * each:.4f}" for each in times), flush=True)


def update(optimizer, loss):
    """One update of the parameters."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss
