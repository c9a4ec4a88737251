"""DDPG-ish agent on a vectorised pendulum with an image-free 'tactile' observation.

Replay lives on device as a pytree so that sampling can happen inside jit.
"""
import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

OBS, ACT, ENVS = 48, 1, 16
CAPACITY = 200_000
BATCH, GAMMA, TAU, LR = 512, 0.98, 0.01, 1e-3


class Replay(NamedTuple):
    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    pos: jax.Array


def empty_replay():
    return Replay(jnp.zeros((CAPACITY, OBS)), jnp.zeros((CAPACITY, ACT)), jnp.zeros(CAPACITY),
                  jnp.zeros((CAPACITY, OBS)), jnp.zeros((), jnp.int32))


@jax.jit
def add(replay, obs, action, reward, next_obs):
    rows = (replay.pos + jnp.arange(ENVS)) % CAPACITY
    return Replay(replay.obs.at[rows].set(obs), replay.action.at[rows].set(action),
                  replay.reward.at[rows].set(reward), replay.next_obs.at[rows].set(next_obs), replay.pos + ENVS)


class Pendulum:
    """16 torque-limited pendulums, seen through a fixed random feature map."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.map = self.rng.normal(0, 1, (3, OBS)).astype(np.float32)
        self.theta = self.rng.uniform(-np.pi, np.pi, ENVS)
        self.omega = np.zeros(ENVS)

    def observe(self):
        s = np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8], -1).astype(np.float32)
        return np.tanh(s @ self.map)

    def step(self, torque):
        torque = 2.0 * np.clip(torque[:, 0], -1, 1)
        angle = (self.theta + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * torque ** 2)
        self.omega = np.clip(self.omega + 0.05 * (15 * np.sin(self.theta) + 3 * torque), -8, 8)
        self.theta = self.theta + 0.05 * self.omega
        return self.observe(), reward.astype(np.float32) / 16


def mlp_init(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [(jax.random.normal(k, (a, b)) * a ** -0.5, jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def actor(p, obs):
    return jnp.tanh(mlp(p["pi"], obs))


def critic(p, obs, act):
    return mlp(p["q"], jnp.concatenate([obs, act], -1))[:, 0]


def losses(p, target, batch):
    obs, action, reward, next_obs = batch
    backup = reward + GAMMA * critic(target, next_obs, actor(target, next_obs))
    td = jnp.mean((critic(p, obs, action) - jax.lax.stop_gradient(backup)) ** 2)
    frozen = {"q": jax.lax.stop_gradient(p["q"]), "pi": p["pi"]}
    return td - jnp.mean(critic(frozen, obs, actor(p, obs))), td


@jax.jit
def update(p, target, mom, replay, key):
    rows = jax.random.randint(key, (BATCH,), 0, jnp.minimum(replay.pos, CAPACITY))
    batch = (replay.obs[rows], replay.action[rows], replay.reward[rows], replay.next_obs[rows])
    (_, td), grads = jax.value_and_grad(losses, has_aux=True)(p, target, batch)
    mom = jax.tree.map(lambda m, g: 0.9 * m + g, mom, grads)
    p = jax.tree.map(lambda a, m: a - LR * m, p, mom)
    target = jax.tree.map(lambda t, a: (1 - TAU) * t + TAU * a, target, p)
    return p, target, mom, td


@partial(jax.jit, static_argnames="scale")
def act(p, obs, key, scale=0.2):
    return jnp.clip(actor(p, obs) + scale * jax.random.normal(key, (obs.shape[0], ACT)), -1, 1)


def main(iterations=320, warmup=20, log_every=5):
    key = jax.random.key(0)
    key, kp, kq = jax.random.split(key, 3)
    p = {"pi": mlp_init(kp, (OBS, 256, 256, ACT)), "q": mlp_init(kq, (OBS + ACT, 256, 256, 1))}
    target, mom = p, jax.tree.map(jnp.zeros_like, p)
    env, replay = Pendulum(1), empty_replay()
    obs, start = env.observe(), time.time()
    for it in range(1, iterations + 1):
        key, ka, kb = jax.random.split(key, 3)
        action = np.asarray(act(p, obs, ka))
        next_obs, reward = env.step(action)
        replay = add(replay, obs, action, reward, next_obs)
        obs = next_obs
        if it > warmup:
            p, target, mom, td = update(p, target, mom, replay, kb)
        if it > warmup and it % log_every == 0:
            print(f"iter {it} td {float(td):.5f} reward {reward.mean():.3f} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
