"""DDPG in JAX with a replay buffer kept as device arrays (purejaxrl / flashbax
style) and a synthetic linear "reach the target" environment."""
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

OBS, ACT = 60, 8
CAPACITY = 150_000
BATCH = 512
HIDDEN = 320
GAMMA, TAU, LR = 0.98, 0.01, 3e-4
START_STEPS = 200
TOTAL_STEPS = 600


class Buffer(NamedTuple):
    obs: jax.Array
    act: jax.Array
    rew: jax.Array
    next_obs: jax.Array
    pos: jax.Array
    size: jax.Array


def init_buffer():
    return Buffer(jnp.zeros((CAPACITY, OBS)), jnp.zeros((CAPACITY, ACT)), jnp.zeros(CAPACITY),
                  jnp.zeros((CAPACITY, OBS)), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


@jax.jit
def add(buf, obs, act, rew, next_obs):
    i = buf.pos
    return Buffer(
        buf.obs.at[i].set(obs), buf.act.at[i].set(act), buf.rew.at[i].set(rew),
        buf.next_obs.at[i].set(next_obs),
        (i + 1) % CAPACITY, jnp.minimum(buf.size + 1, CAPACITY))


@jax.jit
def sample(buf, key):
    idx = jax.random.randint(key, (BATCH,), 0, buf.size)
    return buf.obs[idx], buf.act[idx], buf.rew[idx], buf.next_obs[idx]


class ReachEnv:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.A = np.linalg.qr(self.rng.standard_normal((OBS, OBS)))[0].astype(np.float32) * 0.98
        self.B = self.rng.standard_normal((ACT, OBS)).astype(np.float32) * 0.2

    def reset(self):
        self.t = 0
        self.x = self.rng.standard_normal(OBS).astype(np.float32)
        return self.x

    def step(self, a):
        self.x = self.x @ self.A + a @ self.B
        self.t += 1
        reward = -float(self.x @ self.x) / OBS - 0.01 * float(a @ a)
        return self.x, reward, self.t >= 100


def mlp_init(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (i, o)) / jnp.sqrt(i), jnp.zeros(o))
            for k, i, o in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def actor(p, obs):
    return jnp.tanh(mlp(p, obs))


def critic(p, obs, act):
    return mlp(p, jnp.concatenate([obs, act], -1))[..., 0]


act_fn = jax.jit(actor)


def adam(p, g, m, v, t):
    m = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    a = LR * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
    return jax.tree_util.tree_map(lambda p, m, v: p - a * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v


@jax.jit
def update(state, batch):
    obs, act, rew, next_obs = batch
    net, target, m, v, t = state
    y = rew + GAMMA * critic(target["q"], next_obs, actor(target["pi"], next_obs))

    def loss_fn(net):
        q_loss = ((critic(net["q"], obs, act) - y) ** 2).mean()
        pi_loss = -critic(jax.lax.stop_gradient(net["q"]), obs, actor(net["pi"], obs)).mean()
        return q_loss + pi_loss, q_loss

    grads, q_loss = jax.grad(loss_fn, has_aux=True)(net)
    t = t + 1
    net, m, v = adam(net, grads, m, v, t)
    target = jax.tree_util.tree_map(lambda a, b: (1 - TAU) * a + TAU * b, target, net)
    return (net, target, m, v, t), q_loss


def main():
    key = jax.random.PRNGKey(0)
    key, k1, k2 = jax.random.split(key, 3)
    net = {"pi": mlp_init(k1, [OBS, HIDDEN, HIDDEN, ACT]),
           "q": mlp_init(k2, [OBS + ACT, HIDDEN, HIDDEN, 1])}
    zeros = jax.tree_util.tree_map(jnp.zeros_like, net)
    state = (net, net, zeros, zeros, jnp.zeros((), jnp.int32))
    buf = init_buffer()
    env = ReachEnv()
    rng = np.random.default_rng(1)
    obs, ret, returns, losses, times = env.reset(), 0.0, [], [], []

    for step in range(START_STEPS + TOTAL_STEPS):
        t0 = time.perf_counter()
        if step < START_STEPS:
            a = rng.uniform(-1, 1, ACT).astype(np.float32)
        else:
            noise = 0.1 * rng.standard_normal(ACT).astype(np.float32)
            a = np.clip(np.asarray(act_fn(state[0]["pi"], obs)) + noise, -1, 1)
        next_obs, rew, done = env.step(a)
        buf = add(buf, obs, a, rew, next_obs)
        ret += rew
        obs = next_obs
        if done:
            returns.append(ret)
            obs, ret = env.reset(), 0.0
        if step < START_STEPS:
            continue
        key, sub = jax.random.split(key)
        state, q_loss = update(state, sample(buf, sub))
        losses.append(q_loss.block_until_ready())
        times.append(time.perf_counter() - t0)
        if len(times) % 200 == 0:
            print(f"update {len(times)}  q loss {np.mean(losses[-200:]):.4f}  return {np.mean(returns[-3:]):.1f}")
    print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")


if __name__ == "__main__":
    main()
