"""Physics-informed surrogate for a parametric viscous Burgers equation.

u(x, t; nu, amp, phase, k):  u_t + u u_x = nu u_xx,   u(x, 0) = amp sin(k pi x + phase)
"""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

DIM = 6  # x, t, nu, amp, phase, k
LOW = np.array([-1.0, 0.0, 0.02, 0.4, 0.0, 1.0], np.float32)
HIGH = np.array([1.0, 1.0, 0.15, 1.0, 1.5, 2.0], np.float32)


class Field(tf.Module):
    def __init__(self, width=64, depth=4, seed=0):
        super().__init__()
        gen = tf.random.Generator.from_seed(seed)
        dims = [DIM] + [width] * depth + [1]
        self.w = [tf.Variable(gen.normal((a, b)) * np.sqrt(2.0 / (a + b))) for a, b in zip(dims, dims[1:])]
        self.b = [tf.Variable(tf.zeros((b,))) for b in dims[1:]]

    def __call__(self, z):
        h = 2.0 * (z - LOW) / (HIGH - LOW) - 1.0
        for w, b in zip(self.w[:-1], self.b[:-1]):
            h = tf.tanh(h @ w + b)
        return h @ self.w[-1] + self.b[-1]


class BurgersSolver:
    def __init__(self, n_inside=1280, n_initial=320, lr=2e-3):
        self.n_inside, self.n_initial = n_inside, n_initial
        self.field = Field()
        self.params = self.field.trainable_variables
        self.m = [tf.Variable(tf.zeros_like(p), trainable=False) for p in self.params]
        self.v = [tf.Variable(tf.zeros_like(p), trainable=False) for p in self.params]
        self.count = tf.Variable(0.0, trainable=False)
        self.lr = lr
        self.gen = tf.random.Generator.from_seed(1)

    def residual(self, z):
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                u = self.field(z)
            first = inner.gradient(u, z)
        second = outer.batch_jacobian(first, z)
        u_x, u_t = first[:, 0], first[:, 1]
        u_xx = second[:, 0, 0]
        return u_t + u[:, 0] * u_x - z[:, 2] * u_xx

    def initial_error(self, z):
        start = tf.concat([z[:, :1], tf.zeros_like(z[:, :1]), z[:, 2:]], axis=1)
        target = z[:, 3] * tf.sin(z[:, 5] * np.pi * z[:, 0] + z[:, 4])
        return self.field(start)[:, 0] - target

    def adam(self, grads):
        self.count.assign_add(1.0)
        scale = self.lr * tf.sqrt(1.0 - 0.999**self.count) / (1.0 - 0.9**self.count)
        for p, g, m, v in zip(self.params, grads, self.m, self.v):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            p.assign_sub(scale * m / (tf.sqrt(v) + 1e-8))

    @tf.function
    def step(self):
        z = self.gen.uniform((self.n_inside, DIM)) * (HIGH - LOW) + LOW
        z0 = self.gen.uniform((self.n_initial, DIM)) * (HIGH - LOW) + LOW
        with tf.GradientTape() as tape:
            pde = tf.reduce_mean(tf.square(self.residual(z)))
            ic = tf.reduce_mean(tf.square(self.initial_error(z0)))
            loss = 0.2 * pde + ic
        self.adam(tape.gradient(loss, self.params))
        return pde, ic


def train(steps=200):
    solver = BurgersSolver()
    times = []
    for n in range(1, steps + 1):
        tic = time.perf_counter()
        pde, ic = solver.step()
        times.append(time.perf_counter() - tic)
        if n % 50 == 0:
            print("iter %d  pde %.4f  initial %.4f" % (n, float(pde), float(ic)))
    print("%d steps, median %.1f ms" % (steps, 1e3 * np.median(times)))


if __name__ == "__main__":
    train()
