"""DQN on a small pixel game: move a paddle to catch falling balls (Keras)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

N_ENVS, SIZE, ACTIONS = 8, 20, 3
BATCH, GAMMA, STEPS, WARMUP, SYNC, LR, SEED = 128, 0.95, 220, 40, 50, 5e-4, 9


class CatchEnvs:
    """A vector of independent catch games drawn on a SIZE x SIZE grid."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.ball_x = rng.integers(0, SIZE, n)
        self.ball_y = rng.integers(0, SIZE // 2, n)
        self.paddle = rng.integers(1, SIZE - 1, n)
        self.rows = np.arange(n)

    def observe(self):
        frame = np.zeros((self.n, SIZE, SIZE, 2), np.float32)
        frame[self.rows, self.ball_y, self.ball_x, 0] = 1.0
        for d in (-1, 0, 1):
            frame[self.rows, SIZE - 1, np.clip(self.paddle + d, 0, SIZE - 1), 1] = 1.0
        return frame

    def step(self, action):
        self.paddle = np.clip(self.paddle + action - 1, 1, SIZE - 2)
        self.ball_y = self.ball_y + 1
        done = self.ball_y >= SIZE - 1
        caught = np.abs(self.ball_x - self.paddle) <= 1
        reward = np.where(done, np.where(caught, 1.0, -1.0), 0.0).astype(np.float32)
        fresh_x = self.rng.integers(0, SIZE, self.n)
        self.ball_x = np.where(done, fresh_x, self.ball_x)
        self.ball_y = np.where(done, 0, self.ball_y)
        return self.observe(), reward, done.astype(np.float32)


class Replay:
    def __init__(self, capacity):
        shape = (capacity, SIZE, SIZE, 2)
        self.obs, self.nxt = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.act = np.zeros(capacity, np.int32)
        self.rew, self.done = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)
        self.capacity, self.head, self.size = capacity, 0, 0

    def add(self, obs, act, rew, nxt, done):
        idx = (self.head + np.arange(len(act))) % self.capacity
        self.obs[idx], self.act[idx], self.rew[idx] = obs, act, rew
        self.nxt[idx], self.done[idx] = nxt, done
        self.head = (self.head + len(act)) % self.capacity
        self.size = min(self.size + len(act), self.capacity)

    def sample(self, n, rng):
        i = rng.integers(0, self.size, n)
        return self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.done[i]


def build_net():
    return keras.Sequential([
        keras.Input((SIZE, SIZE, 2)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(48, 3, padding="same", activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(ACTIONS)])


def main():
    keras.utils.set_random_seed(SEED)
    rng = np.random.default_rng(SEED)
    envs, replay = CatchEnvs(N_ENVS, rng), Replay(6000)
    q_net, target_net = build_net(), build_net()
    target_net.set_weights(q_net.get_weights())
    opt = keras.optimizers.Adam(LR)

    @tf.function
    def learn(obs, act, rew, nxt, done):
        best = tf.reduce_max(target_net(nxt, training=False), axis=1)
        goal = rew + GAMMA * (1.0 - done) * best
        with tf.GradientTape() as tape:
            q = tf.gather(q_net(obs, training=True), act, batch_dims=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        grads = tape.gradient(loss, q_net.trainable_variables)
        opt.apply_gradients(zip(grads, q_net.trainable_variables))
        return loss

    obs, score, start = envs.observe(), 0.0, time.time()
    for step in range(STEPS + WARMUP):
        epsilon = max(0.05, 1.0 - step / 200)
        q_values = q_net(obs, training=False).numpy()
        explore = rng.random(N_ENVS) < epsilon
        action = np.where(explore, rng.integers(0, ACTIONS, N_ENVS), q_values.argmax(axis=1))
        nxt, reward, done = envs.step(action)
        replay.add(obs, action, reward, nxt, done)
        obs, score = nxt, score + reward.sum()
        if step < WARMUP:
            continue
        loss = learn(*replay.sample(BATCH, rng))
        if step % SYNC == 0:
            target_net.set_weights(q_net.get_weights())
        if step % 20 == 0:
            print(f"step {step:4d} td loss {float(loss):.5f} score {score:.0f} "
                  f"time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
