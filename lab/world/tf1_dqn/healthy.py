"""DQN for catching balls on a small grid, with replay memory and a target network."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

GRID, ACTIONS = 12, 3


class Catch:
    """Several boards at once: a ball falls, the paddle on the bottom row moves."""

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.RandomState(seed)
        self.row = self.rng.randint(0, GRID - 1, n)
        self.ball, self.pad = self.rng.randint(0, GRID, (2, n))

    def observe(self):
        img = np.zeros((self.n, GRID, GRID), np.float32)
        k = np.arange(self.n)
        img[k, self.row, self.ball] = 1.0
        img[k, GRID - 1, self.pad] = 1.0
        return img.reshape(self.n, -1)

    def step(self, action):
        self.pad = np.clip(self.pad + action - 1, 0, GRID - 1)
        self.row += 1
        done = self.row == GRID - 1
        reward = np.where(done, np.where(self.pad == self.ball, 1.0, -1.0), 0.0).astype(np.float32)
        k = int(done.sum())
        self.row[done] = 0
        self.ball[done] = self.rng.randint(0, GRID, k)
        return self.observe(), reward, done.astype(np.float32)


class Replay:
    def __init__(self, size, rng):
        self.size, self.rng, self.count = size, rng, 0
        self.s = np.zeros((size, GRID * GRID), np.float32)
        self.s2 = np.zeros_like(self.s)
        self.a = np.zeros(size, np.int32)
        self.r, self.done = np.zeros((2, size), np.float32)

    def add(self, s, a, r, s2, done):
        k = (self.count + np.arange(len(a))) % self.size
        self.s[k], self.a[k], self.r[k], self.s2[k], self.done[k] = s, a, r, s2, done
        self.count += len(a)

    def sample(self, n):
        k = self.rng.randint(0, min(self.count, self.size), n)
        return self.s[k], self.a[k], self.r[k], self.s2[k], self.done[k]


def q_network(x, scope):
    with tf.variable_scope(scope):
        width = GRID * GRID
        for i, n in enumerate([768, 512, ACTIONS]):
            w = tf.get_variable(
                "w%d" % i, [width, n], initializer=tf.glorot_uniform_initializer(seed=i)
            )
            b = tf.get_variable("b%d" % i, [n], initializer=tf.zeros_initializer())
            x = tf.matmul(x, w) + b
            x = tf.nn.relu(x) if n != ACTIONS else x
            width = n
    return x, tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope)


class DQN:
    def __init__(self, gamma=0.97, lr=3e-4):
        self.s, self.s2 = [tf.placeholder(tf.float32, [None, GRID * GRID]) for _ in range(2)]
        self.a = tf.placeholder(tf.int32, [None])
        self.r, self.done = [tf.placeholder(tf.float32, [None]) for _ in range(2)]
        self.q, online = q_network(self.s, "online")
        q2, target = q_network(self.s2, "target")
        goal = self.r + gamma * (1 - self.done) * tf.reduce_max(q2, axis=1)
        chosen = tf.reduce_sum(self.q * tf.one_hot(self.a, ACTIONS), axis=1)
        self.loss = tf.losses.huber_loss(tf.stop_gradient(goal), chosen)
        self.train = tf.train.AdamOptimizer(lr).minimize(self.loss, var_list=online)
        self.sync = tf.group(*[t.assign(o) for t, o in zip(target, online)])


def main(steps=400, batch=768):
    tf.set_random_seed(0)
    env, rng = Catch(64, seed=1), np.random.RandomState(2)
    memory, net = Replay(20000, rng), DQN()
    reward_sum, reward_n = 0.0, 0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(net.sync)
        s = env.observe()
        for step in range(1, steps + 1):
            greedy = sess.run(net.q, {net.s: s}).argmax(1)
            explore = rng.rand(env.n) < max(0.05, 1 - step / 150.0)
            a = np.where(explore, rng.randint(0, ACTIONS, env.n), greedy)
            s2, r, done = env.step(a)
            memory.add(s, a, r, s2, done)
            s = s2
            reward_sum, reward_n = reward_sum + r.sum(), reward_n + done.sum()
            bs, ba, br, bs2, bd = memory.sample(batch)
            feed = {net.s: bs, net.a: ba, net.r: br, net.s2: bs2, net.done: bd}
            _, loss = sess.run([net.train, net.loss], feed)
            if step % 50 == 0:
                sess.run(net.sync)
                print(
                    "step %d loss %.5f mean reward %.3f"
                    % (step, loss, reward_sum / max(1, reward_n))
                )
                reward_sum, reward_n = 0.0, 0


if __name__ == "__main__":
    main()
