"""Advantage actor-critic on a vectorised 2D landing task, everything in torch tensors."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--envs", type=int, default=256)
    p.add_argument("--rollout", type=int, default=16)
    p.add_argument("--updates", type=int, default=400)
    p.add_argument("--hidden", type=int, default=192)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--lr", type=float, default=7e-4)
    p.add_argument("--entropy", type=float, default=0.01)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class Lander:
    """State: x, y, vx, vy. Actions: nothing, up, left, right."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.push = torch.tensor([[0.0, 0.0], [0.0, 0.12], [-0.06, 0.02], [0.06, 0.02]])
        self.state = self.fresh()
        self.age = torch.randint(0, 60, (n,), generator=gen)

    def fresh(self):
        s = torch.rand(self.n, 4, generator=self.gen)
        return torch.stack([2 * s[:, 0] - 1, 1 + s[:, 1], 0.2 * (s[:, 2] - 0.5), 0.2 * (s[:, 3] - 0.5)], 1)

    def step(self, action):
        velocity = self.state[:, 2:] + self.push[action]
        velocity[:, 1] -= 0.04
        position = self.state[:, :2] + 0.1 * velocity
        self.age += 1
        landed = position[:, 1] <= 0
        done = landed | (self.age >= 80)
        dist = position[:, 0].abs() + 0.3 * position[:, 1].clamp(min=0)
        speed = velocity.norm(dim=1)
        reward = -0.05 * dist + torch.where(landed, 2.0 - 2.0 * position[:, 0].abs() - 2.0 * speed, torch.zeros(()))
        reset = done.unsqueeze(1)
        self.state = torch.where(reset, self.fresh(), torch.cat([position, velocity], 1))
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return self.state, reward, done.float()


class ActorCritic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, 4)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    env, net = Lander(args.envs, gen), ActorCritic(args.hidden)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    obs = env.state
    shape = (args.rollout, args.envs)
    observations = torch.zeros(*shape, 4)
    actions = torch.zeros(shape, dtype=torch.long)
    rewards, dones, values = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
    start = time.time()
    for update in range(args.updates):
        with torch.no_grad():
            for t in range(args.rollout):
                logits, value = net(obs)
                action = torch.multinomial(logits.softmax(-1), 1, generator=gen).squeeze(1)
                observations[t], actions[t], values[t] = obs, action, value
                obs, rewards[t], dones[t] = env.step(action)
            nxt = net(obs)[1]
            advantage = torch.zeros(shape)
            running = torch.zeros(args.envs)
            for t in reversed(range(args.rollout)):
                alive = 1.0 - dones[t]
                delta = rewards[t] + args.gamma * alive * nxt - values[t]
                running = delta + args.gamma * args.lam * alive * running
                advantage[t], nxt = running, values[t]
            returns = advantage + values
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        logits, value = net(observations.view(-1, 4))
        logp = F.log_softmax(logits, -1)
        chosen = logp.gather(1, actions.view(-1, 1)).squeeze(1)
        policy_loss = -(chosen * advantage.view(-1)).mean()
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = policy_loss + 0.5 * F.mse_loss(value, returns.view(-1)) - args.entropy * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if update % 40 == 0 or update == args.updates - 1:
            print(f"update {update:4d} loss {loss.item():.4f} reward {rewards.mean().item():.4f} "
                  f"time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
