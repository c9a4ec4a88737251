"""TD3 on a batch of simulated two-link reachers (NumPy simulator, TensorFlow learner)."""
import os
import time
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class Config:
    n_envs: int = 16
    horizon: int = 50
    warmup_steps: int = 40
    train_steps: int = 400
    batch: int = 100
    gamma: float = 0.98
    tau: float = 0.005
    noise: float = 0.15
    policy_delay: int = 2
    hidden: tuple = (400, 300)
    seed: int = 3


class Reacher:
    obs_dim, act_dim = 10, 2

    def __init__(self, n, horizon, rng):
        self.n, self.horizon, self.rng = n, horizon, rng
        self.reset()

    def reset(self):
        self.q = self.rng.uniform(-np.pi, np.pi, (self.n, 2))
        self.qd = np.zeros((self.n, 2))
        r, a = self.rng.uniform(0.4, 1.6, self.n), self.rng.uniform(-np.pi, np.pi, self.n)
        self.goal = np.stack([r * np.cos(a), r * np.sin(a)], 1)
        self.t = 0
        return self.obs()

    def tip(self):
        s = self.q[:, 0] + self.q[:, 1]
        return np.stack([np.cos(self.q[:, 0]) + np.cos(s), np.sin(self.q[:, 0]) + np.sin(s)], 1)

    def obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.qd, self.goal,
                               self.goal - self.tip()], 1).astype(np.float32)

    def step(self, action):
        self.qd = 0.95 * self.qd + 0.3 * action
        self.q = self.q + 0.1 * self.qd
        dist = np.linalg.norm(self.goal - self.tip(), axis=1)
        self.t += 1
        return self.obs(), (-dist - 0.01 * (action ** 2).sum(1)).astype(np.float32), self.t >= self.horizon


class Replay:
    def __init__(self, size, obs_dim, act_dim, rng):
        self.s = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, act_dim), np.float32)
        self.r = np.zeros(size, np.float32)
        self.s2 = np.zeros((size, obs_dim), np.float32)
        self.size, self.rng, self.ptr, self.full = size, rng, 0, 0

    def add(self, s, a, r, s2):
        idx = (self.ptr + np.arange(len(s))) % self.size
        self.s[idx], self.a[idx], self.r[idx], self.s2[idx] = s, a, r, s2
        self.ptr = (self.ptr + len(s)) % self.size
        self.full = min(self.full + len(s), self.size)

    def sample(self, n):
        idx = self.rng.integers(0, self.full, n)
        return self.s[idx], self.a[idx], self.r[idx], self.s2[idx]


def mlp(in_dim, hidden, out_dim, out_act):
    inp = keras.Input((in_dim,))
    h = inp
    for width in hidden:
        h = keras.layers.Dense(width, activation="relu")(h)
    return keras.Model(inp, keras.layers.Dense(out_dim, activation=out_act)(h))


class TD3:
    def __init__(self, cfg, obs_dim, act_dim):
        self.cfg = cfg
        make_actor = lambda: mlp(obs_dim, cfg.hidden, act_dim, "tanh")
        make_critic = lambda: mlp(obs_dim + act_dim, cfg.hidden, 1, None)
        self.actor, self.q1, self.q2 = make_actor(), make_critic(), make_critic()
        self.actor_t, self.q1_t, self.q2_t = make_actor(), make_critic(), make_critic()
        self.pairs = [(self.actor, self.actor_t), (self.q1, self.q1_t), (self.q2, self.q2_t)]
        for net, target in self.pairs:
            target.set_weights(net.get_weights())
        self.actor_opt, self.critic_opt = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)

    @tf.function
    def act(self, obs):
        return self.actor(obs)

    @tf.function
    def update_critics(self, s, a, r, s2):
        noise = tf.clip_by_value(tf.random.normal(tf.shape(a), stddev=0.2), -0.5, 0.5)
        a2 = tf.clip_by_value(self.actor_t(s2) + noise, -1.0, 1.0)
        sa2 = tf.concat([s2, a2], 1)
        y = r + self.cfg.gamma * tf.minimum(self.q1_t(sa2), self.q2_t(sa2))[:, 0]
        sa = tf.concat([s, a], 1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.q1(sa)[:, 0] - y) ** 2 + (self.q2(sa)[:, 0] - y) ** 2)
        variables = self.q1.trainable_variables + self.q2.trainable_variables
        self.critic_opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def update_actor(self, s):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.q1(tf.concat([s, self.actor(s)], 1)))
        variables = self.actor.trainable_variables
        self.actor_opt.apply_gradients(zip(tape.gradient(loss, variables), variables))

    @tf.function
    def update_targets(self):
        tau = self.cfg.tau
        for net, target in self.pairs:
            for v, tv in zip(net.variables, target.variables):
                tv.assign(tau * v + (1.0 - tau) * tv)

    def learn(self, step, batch):
        loss = self.update_critics(*batch)
        if step % self.cfg.policy_delay == 0:
            self.update_actor(batch[0])
        self.update_targets()
        return loss


def main(cfg=Config()):
    keras.utils.set_random_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    env = Reacher(cfg.n_envs, cfg.horizon, rng)
    replay = Replay(20000, env.obs_dim, env.act_dim, rng)
    agent = TD3(cfg, env.obs_dim, env.act_dim)
    obs, returns, times = env.obs(), [], []
    for step in range(cfg.warmup_steps + cfg.train_steps):
        t0 = time.perf_counter()
        if step < cfg.warmup_steps:
            action = rng.uniform(-1, 1, (cfg.n_envs, env.act_dim)).astype(np.float32)
        else:
            action = agent.act(obs).numpy()
            action = np.clip(action + cfg.noise * rng.standard_normal(action.shape), -1, 1).astype(np.float32)
        nxt, reward, done = env.step(action)
        replay.add(obs, action, reward, nxt)
        returns.append(reward.mean())
        obs = env.reset() if done else nxt
        if step >= cfg.warmup_steps:
            loss = agent.learn(step, replay.sample(cfg.batch))
            times.append(time.perf_counter() - t0)
            if step % 100 == 0:
                print(f"step {step} critic loss {float(loss):.4f} reward {np.mean(returns[-100:]):.3f}")
    print(f"last reward {np.mean(returns[-100:]):.3f}; {1000 * np.median(times[5:]):.2f} ms per step")


if __name__ == "__main__":
    main()
