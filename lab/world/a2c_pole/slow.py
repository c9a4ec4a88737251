# Advantage actor-critic on a batch of little cart-poles (numpy physics, no gym).
import math
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class VecCartPole:
    """N independent cart-poles with auto-reset."""

    GRAV, MC, MP, LEN, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (n, 4))
        self.age = np.zeros(n, dtype=int)

    def observe(self):
        return self.state.astype(np.float32)

    def step(self, action):
        x, v, th, w = self.state.T
        force = np.where(action == 1, self.FORCE, -self.FORCE)
        cos, sin, total = np.cos(th), np.sin(th), self.MC + self.MP
        tmp = (force + self.MP * self.LEN * w**2 * sin) / total
        wacc = (self.GRAV * sin - cos * tmp) / (self.LEN * (4 / 3 - self.MP * cos**2 / total))
        acc = tmp - self.MP * self.LEN * wacc * cos / total
        self.state = np.stack(
            [x + self.DT * v, v + self.DT * acc, th + self.DT * w, w + self.DT * wacc], axis=1
        )
        self.age += 1
        done = (
            (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21) | (self.age >= 500)
        )
        finished = self.age[done].copy()
        k = int(done.sum())
        self.state[done] = self.rng.uniform(-0.05, 0.05, (k, 4))
        self.age[done] = 0
        return self.observe(), np.ones(self.n, dtype=np.float32), done, finished


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=2, width=512):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.pi = nn.Linear(width, act)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def compute_gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    """rewards, values, dones: [T, N]. Returns advantages [T, N]."""
    T, N = rewards.shape
    adv = torch.zeros(T, N)
    for n in range(N):
        gae = 0.0
        for t in reversed(range(T)):
            next_value = last_value[n] if t == T - 1 else values[t + 1, n]
            alive = 1.0 - dones[t, n]
            delta = rewards[t, n] + gamma * next_value * alive - values[t, n]
            gae = delta + gamma * lam * alive * gae
            adv[t, n] = gae
    return adv


class A2C:
    def __init__(self, n_envs=24, horizon=32, lr=3e-4, ent=0.01):
        self.env = VecCartPole(n_envs, seed=1)
        self.net = ActorCritic()
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=lr, alpha=0.99, eps=1e-5)
        self.horizon, self.ent = horizon, ent
        self.lengths = deque(maxlen=100)

    @torch.no_grad()
    def rollout(self):
        obs_l, act_l, rew_l, val_l, done_l = [], [], [], [], []
        obs = self.env.observe()
        for _ in range(self.horizon):
            o = torch.from_numpy(obs)
            dist, value = self.net(o)
            action = dist.sample()
            obs, rew, done, finished = self.env.step(action.numpy())
            self.lengths.extend(finished.tolist())
            obs_l.append(o)
            act_l.append(action)
            rew_l.append(torch.from_numpy(rew))
            val_l.append(value)
            done_l.append(torch.from_numpy(done.astype(np.float32)))
        _, last = self.net(torch.from_numpy(obs))
        return [torch.stack(z) for z in (obs_l, act_l, rew_l, val_l, done_l)] + [last]

    def update(self):
        obs, act, rew, val, done, last = self.rollout()
        adv = compute_gae(rew, val, done, last)
        target = adv + val
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        dist, value = self.net(obs)
        pg = -(dist.log_prob(act) * adv).mean()
        vf = (target - value).pow(2).mean()
        loss = pg + 0.5 * vf - self.ent * dist.entropy().mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
agent = A2C()
for it in range(1, 161):
    loss = agent.update()
    if it % 20 == 0:
        mean_len = sum(agent.lengths) / len(agent.lengths) if agent.lengths else math.nan
        print(f"update {it} loss {loss:.4f} episode length {mean_len:.1f}")
