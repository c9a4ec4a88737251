"""DQN on a small pixel game (catch the falling ball with a paddle)."""
import argparse
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 40
STACK = 3
N_ACTIONS = 3


class Catch:
    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.ball = np.array([0, self.rng.randint(2, SIZE - 2)])
        self.drift = self.rng.randint(-1, 2)
        self.paddle = SIZE // 2
        self.frames = deque([self.draw()] * STACK, maxlen=STACK)
        return np.stack(self.frames)

    def draw(self):
        img = np.zeros((SIZE, SIZE), dtype=np.uint8)
        r, c = self.ball
        img[r:r + 2, c:c + 2] = 255
        img[SIZE - 2:, max(0, self.paddle - 3):self.paddle + 4] = 255
        return img

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 2 * (action - 1), 0, SIZE - 1))
        self.ball[0] += 2
        self.ball[1] = np.clip(self.ball[1] + self.drift, 0, SIZE - 2)
        done = self.ball[0] >= SIZE - 3
        reward = 0.0
        if done:
            reward = 1.0 if abs(self.ball[1] - self.paddle) <= 4 else -1.0
        self.frames.append(self.draw())
        return np.stack(self.frames), reward, done


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(STACK, 16, 5, stride=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.Conv2d(32, 32, 3), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 6 * 6, 256), nn.ReLU(), nn.Linear(256, N_ACTIONS))

    def forward(self, x):
        return self.head(self.conv(x.float() / 255.0))


class Agent:
    def __init__(self, args):
        self.args = args
        self.memory = []
        self.pos = 0
        self.online = QNet()
        self.target = QNet()
        self.target.load_state_dict(self.online.state_dict())
        self.target.eval()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=args.lr)
        self.eps = 1.0

    def remember(self, *transition):
        if len(self.memory) < self.args.memory:
            self.memory.append(transition)
        else:
            self.memory[self.pos] = transition
        self.pos = (self.pos + 1) % self.args.memory

    @torch.no_grad()
    def act(self, state):
        if random.random() < self.eps:
            return random.randrange(N_ACTIONS)
        return int(self.online(torch.from_numpy(state)[None]).argmax(1))

    def replay(self):
        minibatch = random.sample(self.memory, self.args.batch_size)
        targets = []
        for state, action, reward, next_state, done in minibatch:
            target = reward
            if not done:
                with torch.no_grad():
                    next_q = self.target(torch.from_numpy(next_state).unsqueeze(0))
                target = reward + self.args.gamma * next_q.max().item()
            targets.append(target)
        states = torch.from_numpy(np.stack([t[0] for t in minibatch]))
        actions = torch.tensor([t[1] for t in minibatch])
        targets = torch.tensor(targets)

        q = self.online(states).gather(1, actions[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, targets)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.eps = max(0.05, self.eps * self.args.eps_decay)
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1450)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--memory", type=int, default=5000)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--eps-decay", type=float, default=0.998)
    parser.add_argument("--sync-every", type=int, default=200)
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)

    env = Catch(seed=1)
    agent = Agent(args)
    state = env.reset()
    for _ in range(args.warmup):
        action = random.randrange(N_ACTIONS)
        next_state, reward, done = env.step(action)
        agent.remember(state, action, reward, next_state, done)
        state = env.reset() if done else next_state

    returns = deque(maxlen=50)
    for step in range(1, args.steps + 1):
        action = agent.act(state)
        next_state, reward, done = env.step(action)
        agent.remember(state, action, reward, next_state, done)
        state = next_state
        if done:
            returns.append(reward)
            state = env.reset()
        loss = agent.replay()
        if step % args.sync_every == 0:
            agent.target.load_state_dict(agent.online.state_dict())
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} eps {agent.eps:.2f} return {np.mean(returns):.2f}", flush=True)


if __name__ == "__main__":
    main()
