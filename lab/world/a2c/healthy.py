"""A2C on vectorised cart-pole: rollout with lax.scan and update inside one jitted function (JAX)."""
import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

G, MC, MP, LEN, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


def env_reset(key, n):
    return jax.random.uniform(key, (n, 4), minval=-0.05, maxval=0.05)


def env_step(state, action, key):
    x, xd, th, thd = state.T
    f = jnp.where(action == 1, FORCE, -FORCE)
    cos, sin = jnp.cos(th), jnp.sin(th)
    temp = (f + MP * LEN * thd ** 2 * sin) / (MC + MP)
    tha = (G * sin - cos * temp) / (LEN * (4.0 / 3.0 - MP * cos ** 2 / (MC + MP)))
    xa = temp - MP * LEN * tha * cos / (MC + MP)
    nxt = jnp.stack([x + DT * xd, xd + DT * xa, th + DT * thd, thd + DT * tha], axis=1)
    done = (jnp.abs(nxt[:, 0]) > 2.4) | (jnp.abs(nxt[:, 2]) > 0.21)
    fresh = env_reset(key, state.shape[0])
    return jnp.where(done[:, None], fresh, nxt), jnp.ones_like(x), done


def init(key, sizes):
    layers = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        key, sub = jax.random.split(key)
        layers.append((jax.random.normal(sub, (i, o)) * (1.0 / i) ** 0.5, jnp.zeros((o,))))
    return layers


def net(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    out = x @ w + b
    return out[..., :2], out[..., 2]


@partial(jax.jit, static_argnames=("horizon",), donate_argnums=(0, 1))
def train_step(params, opt, state, key, lr, horizon):
    def act(carry, k):
        s = carry
        ka, ke = jax.random.split(k)
        logits, _ = net(params, s)
        a = jax.random.categorical(ka, logits)
        s2, r, d = env_step(s, a, ke)
        return s2, (s, a, r, d)

    last, (obs, acts, rews, dones) = jax.lax.scan(act, state, jax.random.split(key, horizon))
    _, last_v = net(params, last)

    def back(ret, rd):
        r, d = rd
        ret = r + 0.99 * jnp.where(d, 0.0, ret)
        return ret, ret

    _, returns = jax.lax.scan(back, last_v, (rews, dones), reverse=True)

    def loss_fn(p):
        logits, v = net(p, obs)
        logp = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(logp, acts[..., None], axis=-1)[..., 0]
        adv = jax.lax.stop_gradient(returns - v)
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        entropy = -(jnp.exp(logp) * logp).sum(-1).mean()
        return -(chosen * adv).mean() + 0.5 * ((returns - v) ** 2).mean() * 0.01 - 0.01 * entropy

    loss, grads = jax.value_and_grad(loss_fn)(params)
    sq = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, opt, grads)
    params = jax.tree.map(lambda p, g, s: p - lr * g / (jnp.sqrt(s) + 1e-5), params, grads, sq)
    return params, sq, last, loss, dones.sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--envs", type=int, default=96)
    parser.add_argument("--horizon", type=int, default=32)
    parser.add_argument("--lr", type=float, default=7e-4)
    args = parser.parse_args()

    key = jax.random.PRNGKey(0)
    key, k1, k2 = jax.random.split(key, 3)
    params = init(k1, [4, 192, 192, 3])
    opt = jax.tree.map(jnp.zeros_like, params)
    state = env_reset(k2, args.envs)
    keys = jax.random.split(key, args.updates)
    lrs = np.linspace(args.lr, 0.1 * args.lr, args.updates, dtype=np.float32)
    start, falls = time.time(), []
    for update in range(1, args.updates + 1):
        params, opt, state, loss, n = train_step(params, opt, state, keys[update - 1], lrs[update - 1], args.horizon)
        falls.append(n)
        if update % 50 == 0:
            total = int(jnp.stack(falls).sum())
            length = 50 * args.envs * args.horizon / max(1, total)
            print(f"step {update} loss {float(loss):.4f} episode length {length:.1f} "
                  f"{time.time() - start:.1f}s", flush=True)
            falls = []


if __name__ == "__main__":
    main()
