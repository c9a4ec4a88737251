"""Double DQN with replay for a planar spacecraft that has to dock."""
import os
import random
import time
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "350"))
ENVS = 16
BATCH = 512
CAPACITY = 500_000
WARMUP = 240_000
GAMMA, TAU = 0.99, 0.005

Transition = namedtuple("Transition", "state action reward next_state done")


class DockEnv:
    """Many planar docking problems side by side: x, y, angle and their speeds."""

    ACTIONS = 5

    def __init__(self, count, seed=0):
        self.rng = np.random.default_rng(seed)
        self.count = count
        self.state = self.fresh(count)
        self.age = np.zeros(count, np.int64)

    def fresh(self, count):
        state = self.rng.normal(0, 0.3, (count, 6)).astype(np.float32)
        state[:, :2] += self.rng.choice([-1.0, 1.0], (count, 2)).astype(np.float32)
        return state

    def step(self, action):
        s = self.state.copy()
        thrust = np.where(action == 1, 0.08, np.where(action == 2, -0.08, 0.0))
        torque = np.where(action == 3, 0.1, np.where(action == 4, -0.1, 0.0))
        s[:, 3] += thrust * np.cos(s[:, 2])
        s[:, 4] += thrust * np.sin(s[:, 2])
        s[:, 5] += torque
        s[:, :3] += 0.1 * s[:, 3:]
        distance = np.hypot(s[:, 0], s[:, 1])
        speed = np.hypot(s[:, 3], s[:, 4])
        docked = (distance < 0.15) & (speed < 0.2)
        reward = (10.0 * docked - 0.1 * distance - 0.02 * speed).astype(np.float32)
        self.age += 1
        done = docked | (distance > 4) | (self.age >= 200)
        before, self.state = self.state, s.copy()
        self.state[done] = self.fresh(done.sum())
        self.age[done] = 0
        return before, reward, s, done.astype(np.float32)


class ReplayMemory:
    def __init__(self, capacity):
        self.memory, self.capacity, self.position = [], capacity, 0

    def push(self, state, action, reward, next_state, done):
        for item in map(Transition, state, action, reward, next_state, done):
            if len(self.memory) < self.capacity:
                self.memory.append(item)
            else:
                self.memory[self.position] = item
            self.position = (self.position + 1) % self.capacity

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        return (torch.from_numpy(np.stack(batch.state)),
                torch.from_numpy(np.array(batch.action)),
                torch.from_numpy(np.array(batch.reward)),
                torch.from_numpy(np.stack(batch.next_state)),
                torch.from_numpy(np.array(batch.done)))

    def __len__(self):
        return len(self.memory)


class DuelingNet(nn.Module):
    def __init__(self, width=384):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, DockEnv.ACTIONS)

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def learn(online, target, optimizer, batch):
    state, action, reward, next_state, done = batch
    with torch.no_grad():
        best = online(next_state).argmax(1, keepdim=True)
        future = target(next_state).gather(1, best).squeeze(1)
        goal = reward + GAMMA * (1 - done) * future
    q = online(state).gather(1, action[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), TAU)
    return loss


def main():
    random.seed(0), torch.manual_seed(0)
    rng = np.random.default_rng(1)
    memory = ReplayMemory(CAPACITY)
    warm = DockEnv(800, seed=2)
    while len(memory) < WARMUP:
        action = rng.integers(DockEnv.ACTIONS, size=warm.count)
        state, reward, next_state, done = warm.step(action)
        memory.push(state, action, reward, next_state, done)

    env = DockEnv(ENVS)
    online, target = DuelingNet(), DuelingNet()
    target.load_state_dict(online.state_dict())
    for p in target.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-4)
    start = time.time()
    for step in range(1, STEPS + 1):
        epsilon = max(0.05, 1 - step / STEPS)
        with torch.no_grad():
            action = online(torch.from_numpy(env.state)).argmax(1).numpy()
        explore = rng.random(ENVS) < epsilon
        action = np.where(explore, rng.integers(DockEnv.ACTIONS, size=ENVS), action)
        state, reward, next_state, done = env.step(action)
        memory.push(state, action, reward, next_state, done)
        loss = learn(online, target, optimizer, memory.sample(BATCH))
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  reward {reward.mean():.3f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
