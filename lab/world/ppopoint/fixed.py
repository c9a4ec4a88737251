"""PPO on a vectorised point-mass task, in JAX.

A mass on a plane has to reach a random goal; 32 environments run side by side in numpy. Each
iteration collects 48 steps, computes generalised advantages and does four epochs of updates.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

ENVS, HORIZON = 32, 48
OBS, ACT = 6, 2
GAMMA, LAM = 0.99, 0.95
EPOCHS, MINIBATCHES = 4, 4
ITERATIONS = 400
LR, CLIP = 1e-3, 0.2


class PointMass:
    """Position, velocity and goal offset; the reward is minus the distance."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.pos = self.rng.normal(size=(count, 2)).astype(np.float32)
        self.vel = np.zeros((count, 2), np.float32)
        self.goal = self.rng.normal(size=(count, 2)).astype(np.float32)
        self.age = np.zeros(count, np.int32)

    def observe(self):
        return np.concatenate([self.pos, self.vel, self.goal - self.pos], axis=1)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * np.clip(action, -1, 1)
        self.pos = self.pos + 0.2 * self.vel
        self.age += 1
        distance = np.linalg.norm(self.goal - self.pos, axis=1)
        done = (distance < 0.05) | (self.age >= 100)
        reward = np.where(distance < 0.05, 1.0, -0.1 * distance).astype(np.float32)
        n = int(done.sum())
        if n:
            self.pos[done] = self.rng.normal(size=(n, 2))
            self.goal[done] = self.rng.normal(size=(n, 2))
            self.vel[done] = 0
            self.age[done] = 0
        return self.observe(), reward, done.astype(np.float32)


def init_params(key):
    def layer(key, n_in, n_out, scale):
        return scale * jax.random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), jnp.zeros(n_out)

    k = jax.random.split(key, 4)
    return {
        "h1": layer(k[0], OBS, 128, 1.4),
        "h2": layer(k[1], 128, 128, 1.4),
        "pi": layer(k[2], 128, ACT, 0.01),
        "v": layer(k[3], 128, 1, 1.0),
        "log_std": jnp.full((ACT,), -0.5),
    }


def forward(params, obs):
    h = jnp.tanh(obs @ params["h1"][0] + params["h1"][1])
    h = jnp.tanh(h @ params["h2"][0] + params["h2"][1])
    mean = h @ params["pi"][0] + params["pi"][1]
    value = (h @ params["v"][0] + params["v"][1])[..., 0]
    return mean, value


def log_prob(mean, log_std, action):
    z = (action - mean) / jnp.exp(log_std)
    return jnp.sum(-0.5 * z**2 - log_std - 0.919, axis=-1)


@jax.jit
def act(params, obs, key):
    key, sub = jax.random.split(key)
    mean, value = forward(params, obs)
    action = mean + jnp.exp(params["log_std"]) * jax.random.normal(sub, mean.shape)
    return action, log_prob(mean, params["log_std"], action), value, key


def rollout(env, params, obs, key):
    rows = []
    for _ in range(HORIZON):
        action, logp, value, key = act(params, obs, key)
        nxt, reward, done = env.step(np.asarray(action))
        rows.append((obs, action, logp, value, reward, done))
        obs = nxt
    batch = [np.stack(column) for column in zip(*rows)]
    return batch, obs, key


@jax.jit
def advantages(rewards, values, dones, last_value):
    """Generalised advantage estimates and returns, both of shape (HORIZON, ENVS)."""
    rewards, values, alive = jnp.asarray(rewards), jnp.asarray(values), 1.0 - jnp.asarray(dones)

    def backward(carry, row):
        gae, next_value = carry
        reward, value, alive_now = row
        delta = reward + GAMMA * next_value * alive_now - value
        gae = delta + GAMMA * LAM * alive_now * gae
        return (gae, value), gae

    first = (jnp.zeros_like(last_value), last_value)
    _, adv = jax.lax.scan(backward, first, (rewards, values, alive), reverse=True)
    return adv, adv + values


def ppo_loss(params, obs, action, logp_old, adv, ret):
    mean, value = forward(params, obs)
    ratio = jnp.exp(log_prob(mean, params["log_std"], action) - logp_old)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
    policy = -jnp.mean(jnp.minimum(ratio * adv, clipped * adv))
    return policy + 0.5 * jnp.mean((value - ret) ** 2) - 0.003 * params["log_std"].sum()


@partial(jax.jit, donate_argnums=(0, 1))
def update(params, opt, *batch):
    grads = jax.grad(ppo_loss)(params, *batch)
    step = opt["step"] + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["m"], grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, opt["v"], grads)
    scale = LR * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, {"m": m, "v": v, "step": step}


def main():
    rng = np.random.default_rng(1)
    key = jax.random.PRNGKey(0)
    params = init_params(key)
    opt = {
        "m": jax.tree.map(jnp.zeros_like, params),
        "v": jax.tree.map(jnp.zeros_like, params),
        "step": jnp.zeros(()),
    }
    env = PointMass(ENVS, seed=0)
    obs = env.observe()

    times, returns = [], []
    for iteration in range(1, ITERATIONS + 1):
        start = time.perf_counter()
        (o, a, logp, values, rewards, dones), obs, key = rollout(env, params, obs, key)
        last_value = act(params, obs, key)[2]
        adv, ret = advantages(rewards, values, dones, last_value)
        flat = [
            np.asarray(x).reshape((ENVS * HORIZON,) + x.shape[2:]) for x in (o, a, logp, adv, ret)
        ]
        for _ in range(EPOCHS):
            for index in np.split(rng.permutation(ENVS * HORIZON), MINIBATCHES):
                params, opt = update(params, opt, *[x[index] for x in flat])
        jax.block_until_ready(params)
        times.append(time.perf_counter() - start)
        returns.append(float(rewards.mean()))
        if iteration % 100 == 0:
            print(f"iteration {iteration:4d}  mean reward {np.mean(returns[-100:]):.4f}")

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
