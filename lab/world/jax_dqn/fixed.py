"""Double DQN on a batch-free point-navigation task, plain JAX."""
import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np


class PointWorld:
    """An agent moves on a torus towards a goal while avoiding hazards."""

    def __init__(self, n_hazards=14, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n_hazards = n_hazards
        self.obs_dim = 4 + 2 * n_hazards
        self.moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0], [0, 0]], np.float32) * 0.05

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, 2).astype(np.float32)
        self.goal = self.rng.uniform(-1, 1, 2).astype(np.float32)
        self.hazards = self.rng.uniform(-1, 1, (self.n_hazards, 2)).astype(np.float32)
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.goal - self.pos, (self.hazards - self.pos).ravel()])

    def step(self, action):
        before = np.linalg.norm(self.goal - self.pos)
        self.pos = (self.pos + self.moves[action] + 1) % 2 - 1
        after = np.linalg.norm(self.goal - self.pos)
        hit = np.min(np.linalg.norm(self.hazards - self.pos, axis=1)) < 0.05
        self.t += 1
        done = bool(after < 0.08 or hit or self.t >= 120)
        reward = float(before - after) * 5 + (1.0 if after < 0.08 else 0.0) - (1.0 if hit else 0.0)
        return self._obs(), reward, done


class ReplayBuffer:
    def __init__(self, capacity, obs_dim):
        self.capacity = capacity
        self.size = 0
        self.cursor = 0
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros((capacity,), np.int32)
        self.reward = np.zeros((capacity,), np.float32)
        self.done = np.zeros((capacity,), np.float32)

    def add(self, obs, action, reward, next_obs, done):
        i = self.cursor
        self.obs[i] = obs
        self.next_obs[i] = next_obs
        self.action[i] = action
        self.reward[i] = reward
        self.done[i] = float(done)
        self.cursor = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, rng, n):
        idx = rng.integers(0, self.size, n)
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], self.done[idx])


def init_net(key, sizes):
    params = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        params.append({"w": jax.random.normal(sub, (n_in, n_out)) * np.sqrt(2.0 / n_in),
                       "b": jnp.zeros(n_out)})
    return params


def q_values(params, obs):
    h = obs
    for layer in params[:-1]:
        h = jax.nn.relu(h @ layer["w"] + layer["b"])
    return h @ params[-1]["w"] + params[-1]["b"]


@jax.jit
def greedy(params, obs):
    return jnp.argmax(q_values(params, obs[None])[0])


def td_loss(params, target, batch, gamma):
    obs, action, reward, next_obs, done = batch
    q = jnp.take_along_axis(q_values(params, obs), action[:, None], axis=1)[:, 0]
    best = jnp.argmax(q_values(params, next_obs), axis=1)
    nxt = jnp.take_along_axis(q_values(target, next_obs), best[:, None], axis=1)[:, 0]
    err = q - jax.lax.stop_gradient(reward + gamma * (1 - done) * nxt)
    return jnp.mean(jnp.where(jnp.abs(err) < 1, 0.5 * err ** 2, jnp.abs(err) - 0.5))


@functools.partial(jax.jit, static_argnames=("lr", "gamma"))
def update(params, target, opt, batch, lr, gamma):
    loss, grads = jax.value_and_grad(td_loss)(params, target, batch, gamma)
    count = opt["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["nu"], grads)
    scale = lr * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), params, mu, nu)
    target = jax.tree.map(lambda t, p: 0.995 * t + 0.005 * p, target, params)
    return params, target, {"mu": mu, "nu": nu, "count": count}, loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=3000)
    ap.add_argument("--warmup", type=int, default=300)
    ap.add_argument("--capacity", type=int, default=20000)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()

    rng = np.random.default_rng(args.seed)
    env = PointWorld(seed=args.seed)
    params = init_net(jax.random.key(args.seed), [env.obs_dim, 256, 256, 5])
    target = jax.tree.map(jnp.copy, params)
    opt = {"mu": jax.tree.map(jnp.zeros_like, params),
           "nu": jax.tree.map(jnp.zeros_like, params), "count": jnp.zeros((), jnp.int32)}
    buffer = ReplayBuffer(args.capacity, env.obs_dim)

    obs, episode, returns, losses = env.reset(), 0.0, [], []
    start = time.perf_counter()
    for step in range(args.steps):
        eps = max(0.05, 1.0 - step / (0.6 * args.steps))
        action = int(rng.integers(5)) if rng.random() < eps else int(greedy(params, obs))
        next_obs, reward, done = env.step(action)
        buffer.add(obs, action, reward, next_obs, done)
        episode += reward
        obs = next_obs
        if done:
            returns.append(episode)
            obs, episode = env.reset(), 0.0
        if step >= args.warmup:
            batch = buffer.sample(rng, args.batch_size)
            params, target, opt, loss = update(params, target, opt, batch, args.lr, args.gamma)
            losses.append(loss)
        if (step + 1) % 500 == 0:
            print(f"step {step + 1} eps {eps:.2f} return {np.mean(returns[-20:]):+.3f} "
                  f"loss {float(jnp.mean(jnp.stack(losses[-200:]))):.4f}", flush=True)
    took = time.perf_counter() - start
    print(f"{1000 * took / args.steps:.3f} ms/step")


if __name__ == "__main__":
    main()
