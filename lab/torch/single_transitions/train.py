"""Trains a Q-network on transitions of a replay memory."""

import argparse
import random
import statistics
import time
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

STATE, ACTIONS, DISCOUNT = 8, 4, 0.99


class Transition(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    following: np.ndarray
    is_last: bool


def memory_of(count):
    """Random walks, with a reward for the first coordinate."""
    rng, state, found = np.random.default_rng(0), np.zeros(STATE, np.float32), []
    for _ in range(count):
        following = (0.9 * state + rng.standard_normal(STATE)).astype(np.float32)
        is_last = bool(rng.random() < 0.05)
        action = int(rng.integers(ACTIONS))
        found.append(Transition(state, action, float(state[0]), following, is_last))
        state = np.zeros(STATE, np.float32) if is_last else following
    return found


def network(width):
    return nn.Sequential(
        nn.Linear(STATE, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, ACTIONS),
    )


class Learner:
    def __init__(self, options):
        self.options = options
        self.model, self.target = network(options.width), network(options.width)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def targets(self, batch):
        if self.options.targets == "one":
            return torch.tensor([self.target_of(one) for one in batch])
        following = torch.from_numpy(np.stack([one.following for one in batch]))
        rewards = torch.tensor([one.reward for one in batch])
        goes_on = torch.tensor([not one.is_last for one in batch])
        with torch.no_grad():
            return rewards + DISCOUNT * goes_on * self.target(following).max(1).values

    def target_of(self, one):
        """The target of a single transition."""
        if one.is_last:
            return one.reward
        with torch.no_grad():
            return one.reward + DISCOUNT * self.target(torch.from_numpy(one.following)).max().item()

    def step(self, batch):
        states = torch.from_numpy(np.stack([one.state for one in batch]))
        actions = torch.tensor([[one.action] for one in batch])
        targets = self.targets(batch)
        values = self.model(states).gather(1, actions)[:, 0]
        loss = nn.functional.smooth_l1_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--targets", choices=["one", "batch"], default="one")
    options = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    memory, learner, times = memory_of(10_000), Learner(options), []
    start = time.perf_counter()
    for step in range(options.steps):
        loss = learner.step(random.sample(memory, options.batch))
        if step % 100 == 0:
            learner.target.load_state_dict(learner.model.state_dict())
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 50 == 49:
            print(f"step {step + 1:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
