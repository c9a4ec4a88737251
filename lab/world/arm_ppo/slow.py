"""PPO on a batch of simulated multi-joint arms reaching for a target."""
import time

import torch
import torch.nn as nn
from torch.distributions import MultivariateNormal

ENVS = 256
JOINTS = 8
HORIZON = 32
ITERATIONS = 20
EPOCHS = 8
MINIBATCH = 4096
GAMMA, LAM, CLIP = 0.97, 0.95, 0.2


class ReachingArms:
    """Velocity-controlled joints with friction; reward is minus the distance."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.reset()

    def reset(self):
        self.pos = torch.zeros(self.n, JOINTS)
        self.vel = torch.zeros(self.n, JOINTS)
        self.goal = torch.rand(self.n, JOINTS, generator=self.gen) * 2 - 1
        return self.observe()

    def observe(self):
        return torch.cat([self.pos, self.vel, self.goal - self.pos], 1)

    def step(self, action):
        self.vel = 0.8 * self.vel + 0.1 * action.clamp(-2, 2)
        self.pos = self.pos + self.vel
        dist = (self.goal - self.pos).norm(dim=1)
        return self.observe(), -dist - 0.01 * action.pow(2).sum(1)


def mlp(inp, out, width=64):
    return nn.Sequential(nn.Linear(inp, width), nn.Tanh(), nn.Linear(width, width),
                         nn.Tanh(), nn.Linear(width, out))


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = mlp(3 * JOINTS, JOINTS)
        self.critic = mlp(3 * JOINTS, 1)
        self.log_std = nn.Parameter(torch.full((JOINTS,), -0.5))

    def policy(self, obs):
        mean = self.actor(obs)
        var = (2 * self.log_std).exp().expand_as(mean)
        return MultivariateNormal(mean, torch.diag_embed(var))

    def value(self, obs):
        return self.critic(obs)[:, 0]


@torch.no_grad()
def collect(env, net, obs, gen):
    rows = []
    for _ in range(HORIZON):
        dist = net.policy(obs)
        noise = torch.randn(ENVS, JOINTS, generator=gen)
        action = dist.mean + net.log_std.exp() * noise
        nxt, reward = env.step(action)
        rows.append((obs, action, dist.log_prob(action), reward, net.value(obs)))
        obs = nxt
    stacked = [torch.stack(c) for c in zip(*rows)]
    return obs, stacked, net.value(obs)


def advantages(rewards, values, last):
    adv = torch.zeros_like(rewards)
    run = torch.zeros_like(last)
    nxt = last
    for t in reversed(range(HORIZON)):
        delta = rewards[t] + GAMMA * nxt - values[t]
        run = delta + GAMMA * LAM * run
        adv[t] = run
        nxt = values[t]
    return adv, adv + values


def ppo_loss(net, obs, act, old_logp, adv, ret):
    dist = net.policy(obs)
    ratio = (dist.log_prob(act) - old_logp).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    actor = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
    critic = (net.value(obs) - ret).pow(2).mean()
    return actor + 0.5 * critic - 0.003 * dist.entropy().mean()


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    env = ReachingArms(ENVS, gen)
    step, start = 0, time.time()
    for it in range(ITERATIONS):
        obs = env.reset()
        obs, (o, a, lp, r, v), last = collect(env, net, obs, gen)
        adv, ret = advantages(r, v, last)
        flat = [x.flatten(0, 1) for x in (o, a, lp, adv, ret)]
        for _ in range(EPOCHS):
            for idx in torch.randperm(ENVS * HORIZON, generator=gen).split(MINIBATCH):
                loss = ppo_loss(net, *[x[idx] for x in flat])
                opt.zero_grad()
                loss.backward()
                opt.step()
                step += 1
        print(f"step {step:4d} loss {loss.item():.4f} reward {r.mean().item():.3f} "
              f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
