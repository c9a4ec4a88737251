# Double DQN with prioritized replay on a toy vectorless point-mass env
import random
import time

import numpy as np
import torch
from torch import nn

SEED = 3
CAPACITY = 120000
PREFILL = 110000
BATCH = 128
GAMMA = 0.98
TARGET_SYNC = 200
TRAIN_STEPS = 900
LR = 5e-4

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
torch.set_num_threads(1)


class PointMass:
    """8-dim state, 5 actions, keep the mass close to the origin."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.W = self.rng.randn(5, 8).astype(np.float32) * 0.3
        self.reset()

    def reset(self):
        self.s = self.rng.randn(8).astype(np.float32)
        self.t = 0
        return self.s

    def step(self, a):
        self.s = (0.97 * self.s + self.W[a] + 0.05 * self.rng.randn(8)).astype(np.float32)
        self.t += 1
        r = -float(np.abs(self.s).mean())
        done = self.t >= 200 or r < -4.0
        return self.s, r, done


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha=0.6):
        self.capacity = capacity
        self.alpha = alpha
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priorities = [0.0] * capacity
        self.max_prio = 1.0
        self.pos = 0
        self.size = 0

    def push(self, o, a, r, o2, d):
        i = self.pos
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.done[i] = o, a, r, o2, d
        self.priorities[i] = self.max_prio
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size, beta):
        prios = np.array(self.priorities[: self.size])
        probs = np.sqrt(prios)
        probs /= probs.sum()
        idx = np.searchsorted(np.cumsum(probs), np.random.rand(batch_size))
        idx = np.minimum(idx, self.size - 1)
        w = (self.size * probs[idx]) ** (-beta)
        w = (w / w.max()).astype(np.float32)
        batch = (self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx], self.done[idx])
        return idx, w, [torch.from_numpy(x) for x in batch]

    def update(self, idx, td):
        for i, p in zip(idx, np.abs(td) + 1e-5):
            self.priorities[i] = p
            self.max_prio = max(self.max_prio, p)


class Dueling(nn.Module):
    def __init__(self, obs_dim=8, n_act=5, h=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.v = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))
        self.a = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, n_act))

    def forward(self, x):
        x = self.body(x)
        a = self.a(x)
        return self.v(x) + a - a.mean(1, keepdim=True)


def main():
    env = PointMass(SEED)
    q, tgt = Dueling(), Dueling()
    tgt.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=LR)
    buf = PrioritizedReplay(CAPACITY, 8)

    s = env.reset()
    print("filling replay ...")
    for _ in range(PREFILL):
        a = np.random.randint(5)
        s2, r, d = env.step(a)
        buf.push(s, a, r, s2, d)
        s = env.reset() if d else s2

    ep_ret, returns = 0.0, []
    start = time.time()
    for step in range(1, TRAIN_STEPS + 1):
        eps = max(0.05, 0.6 - step / 1000)
        for _ in range(4):
            if random.random() < eps:
                a = random.randrange(5)
            else:
                with torch.no_grad():
                    a = int(q(torch.from_numpy(s)[None]).argmax(1))
            s2, r, d = env.step(a)
            buf.push(s, a, r, s2, d)
            ep_ret += r
            s = s2
            if d:
                returns.append(ep_ret)
                ep_ret, s = 0.0, env.reset()

        idx, w, (bo, ba, br, bo2, bd) = buf.sample(BATCH, beta=min(1.0, 0.4 + step / 2000))
        with torch.no_grad():
            best = q(bo2).argmax(1, keepdim=True)
            y = br + GAMMA * (1 - bd) * tgt(bo2).gather(1, best).squeeze(1)
        td = q(bo).gather(1, ba[:, None]).squeeze(1) - y
        loss = (torch.from_numpy(w) * td.pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q.parameters(), 10.0)
        opt.step()
        buf.update(idx, td.detach().numpy())

        if step % TARGET_SYNC == 0:
            tgt.load_state_dict(q.state_dict())
        if step % 100 == 0:
            dt = (time.time() - start) / step * 1000
            last = np.mean(returns[-5:]) if returns else float("nan")
            print(
                f"step {step:5d}  loss {loss.item():.6f}  return {last:.3f}  {dt:.2f} ms/step",
                flush=True,
            )


if __name__ == "__main__":
    main()
