"""Double DQN on the game of Catch (a 12x9 board), TensorFlow 1 graph and session.

A ball falls, a paddle moves left, right or stays. Sixteen boards are played in parallel, the
replay memory is a set of numpy arrays, and the target net is copied every 100 steps.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

ROWS, COLS = 12, 9
ACTIONS = 3
BOARDS = 16
MEMORY = 8192
BATCH = 64
STEPS = 1500
GAMMA = 0.97


class Catch:
    """Vectorised boards; the reward comes when the ball reaches the bottom row."""

    def __init__(self, count, rng):
        self.rng = rng
        self.index = np.arange(count)
        self.row = rng.integers(0, ROWS - 1, count)
        self.col = rng.integers(0, COLS, count)
        self.paddle = rng.integers(0, COLS, count)

    def observe(self):
        board = np.zeros((len(self.index), ROWS, COLS, 2), np.float32)
        board[self.index, self.row, self.col, 0] = 1
        board[self.index, ROWS - 1, self.paddle, 1] = 1
        return board

    def step(self, action):
        self.paddle = np.clip(self.paddle + action - 1, 0, COLS - 1)
        self.row = self.row + 1
        done = self.row == ROWS - 1
        reward = np.where(done, np.where(self.col == self.paddle, 1.0, -1.0), 0.0)
        final = self.observe()
        count = int(done.sum())
        self.row[done] = 0
        self.col[done] = self.rng.integers(0, COLS, count)
        return final, reward.astype(np.float32), done.astype(np.float32)


class Memory:
    def __init__(self, rng):
        self.rng = rng
        self.state = np.zeros((MEMORY, ROWS, COLS, 2), np.float32)
        self.next = np.zeros_like(self.state)
        self.action = np.zeros(MEMORY, np.int32)
        self.reward = np.zeros(MEMORY, np.float32)
        self.done = np.zeros(MEMORY, np.float32)
        self.head = self.size = 0

    def add(self, state, action, reward, nxt, done):
        where = (self.head + np.arange(len(action))) % MEMORY
        self.state[where], self.next[where] = state, nxt
        self.action[where], self.reward[where], self.done[where] = action, reward, done
        self.head = (self.head + len(action)) % MEMORY
        self.size = min(self.size + len(action), MEMORY)

    def sample(self, count):
        pick = self.rng.integers(0, self.size, count)
        return (
            self.state[pick],
            self.action[pick],
            self.reward[pick],
            self.next[pick],
            self.done[pick],
        )


def q_net(x, scope, reuse=False):
    glorot = tf.glorot_uniform_initializer()
    with tf.variable_scope(scope, reuse=reuse):
        k1 = tf.get_variable("k1", [3, 3, 2, 16], initializer=glorot)
        k2 = tf.get_variable("k2", [3, 3, 16, 32], initializer=glorot)
        h = tf.nn.relu(tf.nn.conv2d(x, k1, [1, 1, 1, 1], "SAME"))
        h = tf.nn.relu(tf.nn.conv2d(h, k2, [1, 2, 2, 1], "SAME"))
        flat = tf.reshape(h, [-1, 6 * 5 * 32])
        w1 = tf.get_variable("w1", [6 * 5 * 32, 128], initializer=glorot)
        b1 = tf.get_variable("b1", [128], initializer=tf.zeros_initializer())
        w2 = tf.get_variable("w2", [128, ACTIONS], initializer=glorot)
        return tf.matmul(tf.nn.relu(tf.matmul(flat, w1) + b1), w2)


class Agent:
    def __init__(self):
        board = [None, ROWS, COLS, 2]
        self.state = tf.placeholder(tf.float32, board)
        self.next = tf.placeholder(tf.float32, board)
        self.action = tf.placeholder(tf.int32, [None])
        self.reward = tf.placeholder(tf.float32, [None])
        self.done = tf.placeholder(tf.float32, [None])
        q = q_net(self.state, "online")
        self.greedy = tf.argmax(q, axis=1, output_type=tf.int32)
        best = tf.argmax(q_net(self.next, "online", reuse=True), axis=1)
        future = tf.reduce_sum(q_net(self.next, "target") * tf.one_hot(best, ACTIONS), 1)
        goal = tf.stop_gradient(self.reward + GAMMA * (1 - self.done) * future)
        taken = tf.reduce_sum(q * tf.one_hot(self.action, ACTIONS), 1)
        self.loss = tf.losses.huber_loss(goal, taken)
        online = tf.trainable_variables("online")
        self.train_op = tf.train.AdamOptimizer(1e-3).minimize(self.loss, var_list=online)
        pairs = zip(tf.trainable_variables("target"), online)
        self.copy_op = tf.group(*[tf.assign(t, o) for t, o in pairs])

    def act(self, sess, state, epsilon, rng):
        greedy = sess.run(self.greedy, {self.state: state})
        explore = rng.random(len(greedy)) < epsilon
        return np.where(explore, rng.integers(0, ACTIONS, len(greedy)), greedy)

    def learn(self, sess, batch):
        keys = (self.state, self.action, self.reward, self.next, self.done)
        return sess.run([self.train_op, self.loss], dict(zip(keys, batch)))[1]


def main():
    rng = np.random.default_rng(0)
    tf.set_random_seed(0)
    env, memory, agent = Catch(BOARDS, rng), Memory(rng), Agent()
    times, scores, losses = [], [], []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(agent.copy_op)
        state = env.observe()
        for step in range(1, STEPS + 1):
            start = time.perf_counter()
            action = agent.act(sess, state, max(0.05, 1 - step / 600), rng)
            nxt, reward, done = env.step(action)
            memory.add(state, action, reward, nxt, done)
            state = env.observe()
            losses.append(agent.learn(sess, memory.sample(BATCH)))
            scores.append(reward.sum() / max(done.sum(), 1))
            if step % 100 == 0:
                sess.run(agent.copy_op)
            times.append(time.perf_counter() - start)
            if step % 300 == 0:
                print(
                    f"step {step:5d}  loss {np.mean(losses[-300:]):.4f}  "
                    f"score {np.mean(scores[-300:]):.3f}"
                )

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
