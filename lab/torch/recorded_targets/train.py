"""Learns to balance a pole from stored moves, with targets of a second, slower network."""

import argparse
import contextlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

STATES, MOVES, DISCOUNT = 16, 4, 0.97


def network(width):
    """The value of each move in a state."""
    return nn.Sequential(
        nn.Linear(STATES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, MOVES),
    )


def stored_moves(count):
    """States, the moves made in them, the rewards, and the states after them."""
    before = torch.randn(count, STATES)
    moves = torch.randint(MOVES, [count])
    after = before + 0.1 * torch.randn(count, STATES)
    after[torch.arange(count), moves] += 0.2
    return before, moves, 1 - after[:, :2].square().sum(1), after


def train(options):
    torch.manual_seed(5)
    values, slow = network(options.width), network(options.width)
    slow.load_state_dict(values.state_dict())
    optimizer = torch.optim.SGD(values.parameters(), lr=0.02, momentum=0.9)
    memory, times = stored_moves(20_000), []
    for step in range(options.steps):
        start = time.perf_counter()
        chosen = torch.randint(len(memory[0]), [options.batch])
        before, moves, rewards, after = (part[chosen] for part in memory)
        with contextlib.nullcontext() if options.record_targets else torch.no_grad():
            targets = rewards + DISCOUNT * slow(after).max(dim=1).values
        guessed = values(before).gather(1, moves[:, None])[:, 0]
        loss = functional.smooth_l1_loss(guessed, targets.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 50 == 0:
            slow.load_state_dict(values.state_dict())
        times.append(time.perf_counter() - start)
        if (step + 1) % 40 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record-targets", action="store_true", help="compute them with gradients")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
