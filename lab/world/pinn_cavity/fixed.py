"""Physics-informed network for the steady lid-driven cavity (2-D Navier-Stokes, Re = 100)."""
import os
import time
from dataclasses import dataclass, field

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


@dataclass
class Setup:
    reynolds: float = 100.0
    width: int = 80
    depth: int = 4
    interior: int = 2000
    wall: int = 400
    probes: int = 60
    steps: int = 200
    lr: float = 2e-3
    resample_every: int = 50
    seed: int = 8
    weights: dict = field(default_factory=lambda: dict(
        continuity=1.0, momentum_x=1.0, momentum_y=1.0, wall=10.0, probes=5.0))


class FieldNet(tf.Module):
    """(x, y) -> (u, v, p), tanh layers, Glorot initialised."""

    def __init__(self, width, depth):
        super().__init__()
        sizes = [2] + [width] * depth + [3]
        self.w = [tf.Variable(tf.random.normal([a, b], stddev=(2.0 / (a + b)) ** 0.5), name=f"w{i}")
                  for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:]))]
        self.b = [tf.Variable(tf.zeros([b]), name=f"b{i}") for i, b in enumerate(sizes[1:])]

    def __call__(self, xy):
        h = 2.0 * xy - 1.0
        for w, b in zip(self.w[:-1], self.b[:-1]):
            h = tf.tanh(tf.matmul(h, w) + b)
        return tf.matmul(h, self.w[-1]) + self.b[-1]


class Adam(tf.Module):
    def __init__(self, variables, lr):
        super().__init__()
        self.vars, self.lr = list(variables), lr
        self.m = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self.vars]
        self.v = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self.vars]
        self.t = tf.Variable(0.0, trainable=False)

    def step(self, grads):
        t = self.t.assign_add(1.0)
        for var, m, v, g in zip(self.vars, self.m, self.v, grads):
            tf.raw_ops.ResourceApplyAdam(
                var=var.handle, m=m.handle, v=v.handle, beta1_power=0.9 ** t, beta2_power=0.999 ** t,
                lr=self.lr, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=g)


class Cavity:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = FieldNet(cfg.width, cfg.depth)
        self.opt = Adam(self.net.trainable_variables, cfg.lr)

    def residuals(self, xy):
        x, y = xy[:, :1], xy[:, 1:]
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as second:
            second.watch([x, y])
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as first:
                first.watch([x, y])
                u, v, p = tf.split(self.net(tf.concat([x, y], 1)), 3, axis=1)
            u_x, u_y = first.gradient(u, [x, y])
            v_x, v_y = first.gradient(v, [x, y])
            p_x, p_y = first.gradient(p, [x, y])
        u_xx, u_yy = second.gradient(u_x, x), second.gradient(u_y, y)
        v_xx, v_yy = second.gradient(v_x, x), second.gradient(v_y, y)
        nu = 1.0 / self.cfg.reynolds
        return {"continuity": u_x + v_y,
                "momentum_x": u * u_x + v * u_y + p_x - nu * (u_xx + u_yy),
                "momentum_y": u * v_x + v * v_y + p_y - nu * (v_xx + v_yy)}

    def losses(self, interior, wall_xy, wall_uv, probe_xy, probe_uv):
        out = {name: tf.reduce_mean(r ** 2) for name, r in self.residuals(interior).items()}
        out["wall"] = tf.reduce_mean((self.net(wall_xy)[:, :2] - wall_uv) ** 2)
        out["probes"] = tf.reduce_mean((self.net(probe_xy)[:, :2] - probe_uv) ** 2)
        return out

    @tf.function
    def train_step(self, *points):
        variables = self.net.trainable_variables
        with tf.GradientTape() as tape:
            losses = self.losses(*points)
            total = tf.add_n([self.cfg.weights[name] * loss for name, loss in losses.items()])
        self.opt.step(tape.gradient(total, variables))
        return losses

    @tf.function
    def gradient_norms(self, *points):
        variables = self.net.trainable_variables
        with tf.GradientTape(persistent=True) as tape:
            losses = self.losses(*points)
        return {name: tf.linalg.global_norm(tape.gradient(loss, variables, unconnected_gradients="zero"))
                for name, loss in losses.items()}


def wall_points(n, rng):
    s, side = rng.random(n), rng.integers(0, 4, n)
    xy = np.select([side[:, None] == k for k in range(4)],
                   [np.stack([s, np.ones(n)], 1), np.stack([s, np.zeros(n)], 1),
                    np.stack([np.zeros(n), s], 1), np.stack([np.ones(n), s], 1)])
    uv = np.zeros((n, 2))
    uv[:, 0] = np.where(side == 0, 16 * (s * (1 - s)) ** 2, 0.0)
    return xy, uv


def probe_points(n, rng):
    """Coarse 'measurements' of a single vortex, zero at the walls."""
    xy = rng.random((n, 2))
    sx, sy = np.sin(np.pi * xy[:, 0]), np.sin(np.pi * xy[:, 1])
    cx, cy = np.cos(np.pi * xy[:, 0]), np.cos(np.pi * xy[:, 1])
    return xy, 0.2 * np.stack([-sx ** 2 * sy * cy, sx * cx * sy ** 2], 1)


def run(cfg):
    tf.random.set_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    problem = Cavity(cfg)
    tensor = lambda a: tf.constant(a, tf.float32)
    probes = [tensor(a) for a in probe_points(cfg.probes, rng)]
    times = []
    for step in range(cfg.steps):
        t0 = time.perf_counter()
        if step % cfg.resample_every == 0:
            interior = tensor(rng.random((cfg.interior, 2)))
            walls = [tensor(a) for a in wall_points(cfg.wall, rng)]
        losses = problem.train_step(interior, *walls, *probes)
        times.append(time.perf_counter() - t0)
        if (step + 1) % 100 == 0:
            norms = problem.gradient_norms(interior, *walls, *probes)
            print(step + 1, "  ".join(f"{k} {float(v):.2e} (|g| {float(norms[k]):.1e})" for k, v in losses.items()))
    print(f"{1000 * np.median(times[5:]):.2f} ms per step (first call {times[0]:.1f} s)")


if __name__ == "__main__":
    run(Setup())
