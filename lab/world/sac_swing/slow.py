"""Soft actor-critic on a pendulum swing-up, warm-started with logged transitions."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PendulumVec:
    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.theta = self.rng.uniform(-np.pi, np.pi, n)
        self.omega = self.rng.uniform(-1, 1, n)

    def obs(self):
        return np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8.0], axis=1).astype(np.float32)

    def step(self, action):
        torque = 2.0 * np.clip(action[:, 0], -1, 1)
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * torque ** 2) / 8.0
        self.omega = np.clip(self.omega + (15.0 * np.sin(self.theta) + 3.0 * torque) * 0.05, -8, 8)
        self.theta = self.theta + self.omega * 0.05
        return self.obs(), reward.astype(np.float32)


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim):
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros((capacity, act_dim), np.float32)
        self.rew = np.zeros(capacity, np.float32)
        self.capacity, self.size, self.ptr = capacity, 0, 0

    def add(self, obs, act, rew, next_obs):
        idx = (self.ptr + np.arange(len(obs))) % self.capacity
        self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx] = obs, act, rew, next_obs
        self.ptr = (self.ptr + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, batch_size):
        idx = np.random.choice(self.size, batch_size, replace=False)
        batch = (self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx])
        return [torch.from_numpy(b) for b in batch]


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = mlp([obs_dim, hidden, hidden, 2 * act_dim])

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        std = log_std.clamp(-5, 2).exp()
        u = mu + std * torch.randn_like(mu)
        a = torch.tanh(u)
        logp = (-0.5 * ((u - mu) / std) ** 2 - std.log() - 0.9189385).sum(-1)
        logp = logp - (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return a, logp


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=2200)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--capacity", type=int, default=1000000)
    p.add_argument("--logged", type=int, default=600000)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--alpha", type=float, default=0.1)
    p.add_argument("--tau", type=float, default=0.01)
    args = p.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)

    buffer = ReplayBuffer(args.capacity, 3, 1)
    logger_env = PendulumVec(2000, seed=1)
    while buffer.size < args.logged:
        o, a = logger_env.obs(), np.random.uniform(-1, 1, (2000, 1)).astype(np.float32)
        o2, r = logger_env.step(a)
        buffer.add(o, a, r, o2)

    actor = Actor(3, 1, args.hidden)
    critics = nn.ModuleList(mlp([4, args.hidden, args.hidden, 1]) for _ in range(2))
    targets = nn.ModuleList(mlp([4, args.hidden, args.hidden, 1]) for _ in range(2))
    targets.load_state_dict(critics.state_dict())
    opt_a = torch.optim.Adam(actor.parameters(), lr=3e-4)
    opt_c = torch.optim.Adam(critics.parameters(), lr=1e-3)
    src, dst = list(critics.parameters()), list(targets.parameters())

    env = PendulumVec(16, seed=2)
    obs, returns = env.obs(), 0.0
    start = time.time()
    for step in range(1, args.steps + 1):
        with torch.no_grad():
            act = actor(torch.from_numpy(obs))[0].numpy()
        next_obs, rew = env.step(act)
        buffer.add(obs, act, rew, next_obs)
        obs, returns = next_obs, 0.99 * returns + 0.01 * float(rew.mean())

        o, a, r, o2 = buffer.sample(args.batch_size)
        with torch.no_grad():
            a2, logp2 = actor(o2)
            x2 = torch.cat([o2, a2], 1)
            q2 = torch.min(targets[0](x2), targets[1](x2)).squeeze(1)
            backup = r + args.gamma * (q2 - args.alpha * logp2)
        x = torch.cat([o, a], 1)
        q_loss = sum(F.mse_loss(c(x).squeeze(1), backup) for c in critics)
        opt_c.zero_grad()
        q_loss.backward()
        opt_c.step()

        critics.requires_grad_(False)
        pi, logp = actor(o)
        xp = torch.cat([o, pi], 1)
        pi_loss = (args.alpha * logp - torch.min(critics[0](xp), critics[1](xp)).squeeze(1)).mean()
        opt_a.zero_grad()
        pi_loss.backward()
        opt_a.step()
        critics.requires_grad_(True)
        with torch.no_grad():
            torch._foreach_lerp_(dst, src, args.tau)

        if step % 100 == 0:
            print(f"step {step} q_loss {q_loss.item():.4f} pi_loss {pi_loss.item():.4f} "
                  f"reward {returns:.3f} elapsed {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
