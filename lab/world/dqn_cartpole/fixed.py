"""
DQN on CartPole (own re-implementation of the environment, no gym needed).
Follows the PyTorch "Reinforcement Learning (DQN)" tutorial, with a long random
warm-up phase so that the replay memory is well mixed before learning starts.
"""
import math
import random
import time
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

SEED = 3
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
torch.set_num_threads(1)      # tiny networks, one thread is enough

# ------------------------------------------------------------------ settings
BATCH_SIZE = 256
GAMMA = 0.99
EPS_START, EPS_END, EPS_DECAY = 0.9, 0.05, 1000
TAU = 0.005
LR = 3e-4
MEMORY_SIZE = 1_000_000
WARMUP_STEPS = 300_000
TRAIN_FREQ = 4          # env steps per iteration
GRADIENT_STEPS = 4      # updates per iteration
ITERATIONS = 200

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))


class CartPole:
    gravity, masscart, masspole, length = 9.8, 1.0, 0.1, 0.5
    force_mag, tau = 10.0, 0.02
    x_limit, theta_limit = 2.4, 12 * 2 * math.pi / 360
    n_obs, n_actions = 4, 2

    def reset(self):
        self.s = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.t = 0
        return np.array(self.s, dtype=np.float32)

    def step(self, action):
        x, xd, th, thd = self.s
        force = self.force_mag if action == 1 else -self.force_mag
        c, s = math.cos(th), math.sin(th)
        total = self.masscart + self.masspole
        pml = self.masspole * self.length
        temp = (force + pml * thd ** 2 * s) / total
        tha = (self.gravity * s - c * temp) / (self.length * (4.0 / 3.0 - self.masspole * c ** 2 / total))
        xa = temp - pml * tha * c / total
        self.s = [x + self.tau * xd, xd + self.tau * xa, th + self.tau * thd, thd + self.tau * tha]
        self.t += 1
        terminated = abs(self.s[0]) > self.x_limit or abs(self.s[2]) > self.theta_limit
        truncated = self.t >= 500
        return np.array(self.s, dtype=np.float32), 1.0, terminated, truncated


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = []
        self.capacity = capacity
        self.position = 0

    def push(self, *args):
        """Save a transition"""
        if len(self.memory) < self.capacity:
            self.memory.append(Transition(*args))
        else:
            self.memory[self.position] = Transition(*args)
        self.position = (self.position + 1) % self.capacity

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_obs, 128)
        self.layer2 = nn.Linear(128, 128)
        self.layer3 = nn.Linear(128, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


env = CartPole()
policy_net = DQN(env.n_obs, env.n_actions)
target_net = DQN(env.n_obs, env.n_actions)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
memory = ReplayMemory(MEMORY_SIZE)
steps_done = 0


def select_action(state):
    global steps_done  # noqa: PLW0603
    eps = EPS_END + (EPS_START - EPS_END) * math.exp(-steps_done / EPS_DECAY)
    steps_done += 1
    if random.random() > eps:
        with torch.no_grad():
            return int(policy_net(torch.from_numpy(state)).argmax())
    return random.randrange(env.n_actions)


def optimize_model():
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    state = torch.from_numpy(np.stack(batch.state))
    next_state = torch.from_numpy(np.stack(batch.next_state))
    action = torch.tensor(batch.action).unsqueeze(1)
    reward = torch.tensor(batch.reward)
    done = torch.tensor(batch.done, dtype=torch.float32)

    q = policy_net(state).gather(1, action).squeeze(1)
    with torch.no_grad():
        target = reward + GAMMA * (1 - done) * target_net(next_state).max(1).values
    loss = F.smooth_l1_loss(q, target)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    with torch.no_grad():
        for tp, p in zip(target_net.parameters(), policy_net.parameters()):
            tp.lerp_(p, TAU)
    return loss.detach()


# ------------------------------------------------------------------- warm-up
state = env.reset()
for _ in range(WARMUP_STEPS):
    action = random.randrange(env.n_actions)
    next_state, reward, terminated, truncated = env.step(action)
    memory.push(state, action, reward, next_state, terminated)
    state = env.reset() if terminated or truncated else next_state
print(f"warm-up done, {len(memory)} transitions in memory")

# ------------------------------------------------------------------ training
state = env.reset()
episode_len, lengths, losses, times = 0, [], [], []
for it in range(ITERATIONS):
    t0 = time.perf_counter()
    for _ in range(TRAIN_FREQ):
        action = select_action(state)
        next_state, reward, terminated, truncated = env.step(action)
        memory.push(state, action, reward, next_state, terminated)
        episode_len += 1
        if terminated or truncated:
            lengths.append(episode_len)
            episode_len = 0
            state = env.reset()
        else:
            state = next_state
    for _ in range(GRADIENT_STEPS):
        loss = optimize_model()
    losses.append(loss)
    times.append(time.perf_counter() - t0)
    if (it + 1) % 50 == 0:
        print(f"iter {it + 1}  loss {torch.stack(losses[-50:]).mean():.4f}  "
              f"mean length {np.mean(lengths[-20:]):.1f}")

print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")
