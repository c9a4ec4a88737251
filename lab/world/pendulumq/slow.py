"""DQN on a pendulum swing-up with discretised torque, warm-started from logged play."""
import math
import os
import random
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "2000"))
CAPACITY = 500_000
WARM_START = 400_000
BATCH = 128
GAMMA = 0.98
TORQUES = np.linspace(-2.0, 2.0, 9)


def dynamics(theta, omega, torque):
    acc = 15.0 * np.sin(theta) + 3.0 * torque
    omega = np.clip(omega + 0.05 * acc, -8.0, 8.0)
    theta = (theta + 0.05 * omega + math.pi) % (2 * math.pi) - math.pi
    return theta, omega


def reward_fn(theta, omega, torque):
    return -(theta ** 2 + 0.1 * omega ** 2 + 0.001 * torque ** 2) / 10.0


def observe(theta, omega):
    return np.stack([np.cos(theta), np.sin(theta), omega / 8.0], axis=-1).astype(np.float32)


class ReplayMemory:
    def __init__(self, capacity):
        self.data = deque(maxlen=capacity)

    def push(self, transition):
        self.data.append(transition)

    def sample(self, n):
        rows = random.sample(self.data, n)
        obs, act, rew, nxt = zip(*rows)
        return (torch.from_numpy(np.stack(obs)), torch.tensor(act),
                torch.tensor(rew), torch.from_numpy(np.stack(nxt)))


def load_logged_play(memory, n):
    rng = np.random.default_rng(1)
    theta = rng.uniform(-math.pi, math.pi, n)
    omega = rng.uniform(-8, 8, n)
    act = rng.integers(0, len(TORQUES), n)
    torque = TORQUES[act]
    rew = reward_fn(theta, omega, torque)
    obs = observe(theta, omega)
    nxt = observe(*dynamics(theta, omega, torque))
    for row in zip(obs, act.tolist(), rew.tolist(), nxt):
        memory.push(row)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                                 nn.Linear(256, len(TORQUES)))

    def forward(self, x):
        return self.net(x)


class Pendulum:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.theta = self.rng.uniform(-math.pi, math.pi)
        self.omega = self.rng.uniform(-1, 1)
        self.t = 0
        return observe(self.theta, self.omega)

    def step(self, action):
        torque = TORQUES[action]
        rew = float(reward_fn(self.theta, self.omega, torque))
        self.theta, self.omega = dynamics(self.theta, self.omega, torque)
        self.t += 1
        return observe(self.theta, self.omega), rew, self.t >= 200


def act_greedy(q, obs, eps):
    if random.random() < eps:
        return random.randrange(len(TORQUES))
    with torch.no_grad():
        return int(q(torch.from_numpy(obs)).argmax())


def main():
    random.seed(0)
    torch.manual_seed(0)
    memory = ReplayMemory(CAPACITY)
    load_logged_play(memory, WARM_START)
    q, target = QNet(), QNet()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=5e-4)
    env = Pendulum(seed=2)
    obs, score, recent = env.reset(), 0.0, []

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        action = act_greedy(q, obs, eps=max(0.05, 0.5 - step / 2000))
        nxt, rew, done = env.step(action)
        memory.push((obs, action, rew, nxt))
        score += rew
        obs = nxt
        if done:
            recent.append(score)
            obs, score = env.reset(), 0.0

        b_obs, b_act, b_rew, b_nxt = memory.sample(BATCH)
        with torch.no_grad():
            best = q(b_nxt).argmax(1, keepdim=True)
            goal = b_rew + GAMMA * target(b_nxt).gather(1, best).squeeze(1)
        value = q(b_obs).gather(1, b_act.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(value, goal)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if step % 250 == 0:
            target.load_state_dict(q.state_dict())
            mean = np.mean(recent[-5:]) if recent else float("nan")
            print(f"step {step:5d}  loss {loss.item():.5f}  return {mean:.2f}", flush=True)

    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.5f}  {1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
