"""Double DQN on a small vectorised point-reacher task."""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReacherVec:
    """A batch of point masses that must reach a target; 5 discrete actions."""

    ACTIONS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)

    def __init__(self, n_envs, seed=0, horizon=120):
        self.rng = np.random.default_rng(seed)
        self.n, self.horizon = n_envs, horizon
        self.pos = np.zeros((n_envs, 2), np.float32)
        self.vel = np.zeros((n_envs, 2), np.float32)
        self.goal = np.zeros((n_envs, 2), np.float32)
        self.t = np.zeros(n_envs, np.int64)
        self._reset(np.ones(n_envs, bool))

    def _reset(self, mask):
        k = int(mask.sum())
        if k:
            self.pos[mask] = self.rng.uniform(-1, 1, (k, 2))
            self.vel[mask] = 0.0
            self.goal[mask] = self.rng.uniform(-1, 1, (k, 2))
            self.t[mask] = 0

    def obs(self):
        return np.concatenate([self.pos, self.vel, self.goal, self.goal - self.pos], axis=1)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.05 * self.ACTIONS[action]
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        self.t += 1
        dist = np.linalg.norm(self.goal - self.pos, axis=1)
        reached = dist < 0.08
        reward = (-dist + 5.0 * reached).astype(np.float32)
        done = reached | (self.t >= self.horizon)
        nxt = self.obs()
        self._reset(done)
        return nxt, reward, done.astype(np.float32)


class ReplayBuffer:
    def __init__(self, capacity, obs_dim):
        self.capacity = capacity
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.ptr, self.size = 0, 0

    def add_batch(self, obs, action, reward, next_obs, done):
        n = len(obs)
        idx = (self.ptr + np.arange(n)) % self.capacity
        self.obs[idx], self.next_obs[idx] = obs, next_obs
        self.action[idx], self.reward[idx], self.done[idx] = action, reward, done
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size):
        idx = np.random.choice(self.size, batch_size, replace=False)
        return (torch.from_numpy(self.obs[idx]), torch.from_numpy(self.action[idx]),
                torch.from_numpy(self.reward[idx]), torch.from_numpy(self.next_obs[idx]),
                torch.from_numpy(self.done[idx]))


class DuelingQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


class DQNAgent:
    def __init__(self, args, obs_dim, n_actions):
        self.args, self.n_actions = args, n_actions
        self.q = DuelingQ(obs_dim, n_actions, args.hidden)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=args.lr)

    @torch.no_grad()
    def act(self, obs, eps):
        a = self.q(torch.from_numpy(obs)).argmax(dim=1).numpy()
        explore = np.random.rand(len(a)) < eps
        return np.where(explore, np.random.randint(0, self.n_actions, len(a)), a)

    def update(self, batch):
        obs, action, reward, next_obs, done = batch
        with torch.no_grad():
            best = self.q(next_obs).argmax(dim=1, keepdim=True)
            nxt = self.target(next_obs).gather(1, best).squeeze(1)
            y = reward + self.args.gamma * (1 - done) * nxt
        q = self.q(obs).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        return loss.detach()


def evaluate(agent, episodes=32, steps=60):
    env = ReacherVec(episodes, seed=999)
    total = np.zeros(episodes)
    for _ in range(steps):
        _, r, _ = env.step(agent.act(env.obs(), eps=0.0))
        total += r
    return total.mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--capacity", type=int, default=400_000)
    p.add_argument("--warmup", type=int, default=320_000)
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--n-envs", type=int, default=64)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--target-every", type=int, default=100)
    p.add_argument("--log-every", type=int, default=200)
    args = p.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)

    env = ReacherVec(args.n_envs)
    buffer = ReplayBuffer(args.capacity, obs_dim=8)
    agent = DQNAgent(args, 8, 5)
    while buffer.size < args.warmup:
        obs = env.obs()
        a = np.random.randint(0, 5, args.n_envs)
        nxt, r, d = env.step(a)
        buffer.add_batch(obs, a, r, nxt, d)
    print(f"replay warmed up with {buffer.size} transitions")

    running, t0 = torch.zeros(()), time.perf_counter()
    for step in range(1, args.steps + 1):
        eps = max(0.05, 1.0 - step / (0.6 * args.steps))
        obs = env.obs()
        a = agent.act(obs, eps)
        nxt, r, d = env.step(a)
        buffer.add_batch(obs, a, r, nxt, d)
        running += agent.update(buffer.sample(args.batch_size))
        if step % args.target_every == 0:
            agent.target.load_state_dict(agent.q.state_dict())
        if step % args.log_every == 0:
            print(f"step {step} loss {running.item() / args.log_every:.4f} "
                  f"return {evaluate(agent):.2f} eps {eps:.2f}")
            running.zero_()
    dt = time.perf_counter() - t0
    print(f"done: {args.steps} steps, {1000 * dt / args.steps:.2f} ms/step")


if __name__ == "__main__":
    main()
