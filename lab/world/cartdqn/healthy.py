"""Double DQN on a batch of simulated carts, TF1 graph and session."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "1500"))
N_ENVS, OBS, ACTIONS, BATCH, CAPACITY = 16, 4, 3, 256, 20_000
GAMMA, SYNC_EVERY = 0.97, 100


class Carts:
    """Push a cart on a hilly track towards the origin."""

    def __init__(self, rng):
        self.rng = rng
        self.state = np.zeros((N_ENVS, OBS), np.float32)
        self.reset(np.ones(N_ENVS, bool))

    def reset(self, which):
        fresh = self.rng.uniform(-1, 1, (N_ENVS, OBS)).astype(np.float32)
        self.state[which] = fresh[which]

    def step(self, actions):
        x, v, wind, phase = self.state.T
        force = (actions - 1) * 0.8 + 0.3 * wind * np.sin(phase)
        v = 0.95 * v + 0.1 * force - 0.02 * np.sin(3 * x)
        x = x + 0.1 * v
        self.state = np.stack([x, v, wind, phase + 0.1], 1).astype(np.float32)
        reward = np.exp(-4 * x ** 2) - 0.05 * v ** 2
        done = (np.abs(x) > 2) | (self.rng.random(N_ENVS) < 0.01)
        nxt = self.state.copy()
        self.reset(done)
        return nxt, reward.astype(np.float32), done.astype(np.float32)


class Replay:
    def __init__(self):
        self.s, self.n = np.zeros((CAPACITY, OBS), np.float32), np.zeros((CAPACITY, OBS), np.float32)
        self.a, self.r, self.d = np.zeros(CAPACITY, np.int32), np.zeros(CAPACITY, np.float32), np.zeros(CAPACITY, np.float32)
        self.size = self.head = 0

    def add(self, s, a, r, n, d):
        rows = (self.head + np.arange(len(a))) % CAPACITY
        self.s[rows], self.a[rows], self.r[rows], self.n[rows], self.d[rows] = s, a, r, n, d
        self.head = (self.head + len(a)) % CAPACITY
        self.size = min(self.size + len(a), CAPACITY)

    def sample(self, rng):
        rows = rng.integers(0, self.size, BATCH)
        return self.s[rows], self.a[rows], self.r[rows], self.n[rows], self.d[rows]


def q_net(x, scope):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        for i, width in enumerate((192, 192, ACTIONS)):
            w = tf.get_variable(f"w{i}", [int(x.shape[1]), width], initializer=tf.glorot_uniform_initializer())
            b = tf.get_variable(f"b{i}", [width], initializer=tf.zeros_initializer())
            x = tf.matmul(x, w) + b
            if i < 2:
                x = tf.nn.relu(x)
    return x


def main():
    tf.set_random_seed(0)
    rng = np.random.default_rng(1)
    s, n = tf.placeholder(tf.float32, [None, OBS]), tf.placeholder(tf.float32, [None, OBS])
    a, r, d = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    q = q_net(s, "online")
    greedy = tf.argmax(q, 1)
    best = tf.one_hot(tf.argmax(q_net(n, "online"), 1), ACTIONS)
    boot = tf.reduce_sum(best * q_net(n, "target"), 1)
    goal = tf.stop_gradient(r + GAMMA * (1 - d) * boot)
    loss = tf.losses.huber_loss(goal, tf.reduce_sum(tf.one_hot(a, ACTIONS) * q, 1))
    online = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "online")
    target = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "target")
    train_op = tf.train.AdamOptimizer(5e-4).minimize(loss, var_list=online)
    sync = tf.group(*[tf.assign(t, o) for t, o in zip(target, online)])

    carts, replay = Carts(rng), Replay()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(sync)
        reward_mean = 0.0
        for step in range(1, STEPS + 1):
            obs = carts.state.copy()
            act = sess.run(greedy, {s: obs})
            explore = rng.random(N_ENVS) < max(0.05, 1 - step / 500)
            act = np.where(explore, rng.integers(0, ACTIONS, N_ENVS), act)
            nxt, reward, done = carts.step(act)
            replay.add(obs, act, reward, nxt, done)
            bs, ba, br, bn, bd = replay.sample(rng)
            _, loss_v = sess.run([train_op, loss], {s: bs, a: ba, r: br, n: bn, d: bd})
            reward_mean += 0.02 * (reward.mean() - reward_mean)
            if step % SYNC_EVERY == 0:
                sess.run(sync)
            if step % 250 == 0 or step == STEPS:
                print(f"step {step} loss {loss_v:.5f} reward {reward_mean:.3f}", flush=True)


if __name__ == "__main__":
    main()
