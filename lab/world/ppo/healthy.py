"""PPO on a vectorised reacher-like env (numpy), 32 envs."""

import time

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
N_ENV, HORIZON, EPOCHS, MB = 32, 64, 4, 512
UPDATES, GAMMA, LAM, CLIP = 70, 0.99, 0.95, 0.2


class Reacher:
    def __init__(self, n, seed=0):
        self.rng, self.n = np.random.default_rng(seed), n
        self.pos, self.vel = np.zeros((n, 2)), np.zeros((n, 2))
        self.goal, self.t = np.zeros((n, 2)), np.zeros(n, int)
        self._reset(np.ones(n, bool))

    def _reset(self, m):
        k = m.sum()
        self.pos[m], self.vel[m] = self.rng.uniform(-1, 1, (k, 2)), 0
        self.goal[m], self.t[m] = self.rng.uniform(-1, 1, (k, 2)), 0

    def obs(self):
        return np.concatenate([self.pos, self.vel, self.goal], 1).astype(np.float32)

    def step(self, a):
        self.vel = 0.8 * self.vel + 0.1 * np.clip(a, -1, 1)
        self.pos += self.vel
        self.t += 1
        dist = np.linalg.norm(self.pos - self.goal, axis=1)
        done = (self.t >= 50) | (dist < 0.05)
        r = -dist + 5.0 * (dist < 0.05)
        self._reset(done)
        return self.obs(), r.astype(np.float32), done.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, o=6, a=2, h=128):
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(o, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, a)
        )
        self.v = nn.Sequential(
            nn.Linear(o, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1)
        )
        self.log_std = nn.Parameter(torch.full((a,), -0.5))

    def dist(self, o):
        return torch.distributions.Normal(self.pi(o), self.log_std.exp())


def gae(rew, val, done, last):
    adv, run = np.zeros_like(rew), np.zeros(N_ENV, np.float32)
    for t in reversed(range(HORIZON)):
        nxt = last if t == HORIZON - 1 else val[t + 1]
        delta = rew[t] + GAMMA * nxt * (1 - done[t]) - val[t]
        run = delta + GAMMA * LAM * (1 - done[t]) * run
        adv[t] = run
    return adv, adv + val


env, ac = Reacher(N_ENV), ActorCritic()
opt = torch.optim.Adam(ac.parameters(), lr=3e-4)
O = np.zeros((HORIZON, N_ENV, 6), np.float32)
A = np.zeros((HORIZON, N_ENV, 2), np.float32)
LP, R, V, D = (np.zeros((HORIZON, N_ENV), np.float32) for _ in range(4))
o, t0 = env.obs(), time.time()
for up in range(1, UPDATES + 1):
    with torch.no_grad():
        for t in range(HORIZON):
            ot = torch.from_numpy(o)
            d = ac.dist(ot)
            a = d.sample()
            O[t], A[t], LP[t], V[t] = (
                o,
                a.numpy(),
                d.log_prob(a).sum(1).numpy(),
                ac.v(ot)[:, 0].numpy(),
            )
            o, R[t], D[t] = env.step(A[t])
        last = ac.v(torch.from_numpy(o))[:, 0].numpy()
    adv, ret = gae(R, V, D, last)
    bo, ba, blp, badv, bret = (
        torch.from_numpy(x.reshape(HORIZON * N_ENV, -1)).squeeze(-1) for x in (O, A, LP, adv, ret)
    )
    badv = (badv - badv.mean()) / (badv.std() + 1e-8)
    for _ in range(EPOCHS):
        for idx in torch.randperm(len(bo)).split(MB):
            d = ac.dist(bo[idx])
            ratio = (d.log_prob(ba[idx]).sum(1) - blp[idx]).exp()
            s1, s2 = ratio * badv[idx], ratio.clamp(1 - CLIP, 1 + CLIP) * badv[idx]
            pl = -torch.min(s1, s2).mean()
            vl = (ac.v(bo[idx])[:, 0] - bret[idx]).pow(2).mean()
            loss = pl + 0.5 * vl - 0.001 * d.entropy().sum(1).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
    if up % 10 == 0:
        print(
            f"update {up} loss {loss.item():.5f} reward {R.mean():.4f} {(time.time() - t0) / up * 1000:.2f} ms/step",
            flush=True,
        )
