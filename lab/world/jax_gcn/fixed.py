"""Graph convolution on a stochastic block model (dense adjacency, plain JAX)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def block_model(n=2200, k=7, p_in=0.012, p_out=0.003, feats=128, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, n)
    same = label[:, None] == label[None, :]
    up = np.triu(rng.random((n, n)) < np.where(same, p_in, p_out), 1)
    adj = (up | up.T).astype(np.float32)
    centers = rng.normal(size=(k, feats))
    x = (0.25 * centers[label] + rng.normal(size=(n, feats))).astype(np.float32)
    train = rng.random(n) < 0.15
    return adj, x, label, train


def init_params(key, dims):
    params = []
    for k, (i, o) in zip(jax.random.split(key, len(dims) - 1), zip(dims[:-1], dims[1:])):
        w = jax.random.normal(k, (i, o)) * jnp.sqrt(2.0 / (i + o))
        params.append({"w": w, "b": jnp.zeros(o)})
    return params


def normalize(adj):
    """Symmetric normalisation with self loops, D^-1/2 (A + I) D^-1/2."""
    a = adj + jnp.eye(adj.shape[0])
    d = 1.0 / jnp.sqrt(a.sum(axis=1))
    return d[:, None] * a * d[None, :]


def gcn_layer(p, a_hat, h):
    return a_hat @ (h @ p["w"]) + p["b"]


def forward(params, adj, x, key, rate=0.3):
    h = x
    for p in params[:-1]:
        h = jax.nn.relu(gcn_layer(p, adj, h))
        key, sub = jax.random.split(key)
        keep = jax.random.bernoulli(sub, 1 - rate, h.shape)
        h = jnp.where(keep, h / (1 - rate), 0.0)
    return gcn_layer(params[-1], adj, h)


def loss_fn(params, adj, x, label, mask, key):
    logp = jax.nn.log_softmax(forward(params, adj, x, key))
    nll = -jnp.take_along_axis(logp, label[:, None], axis=1)[:, 0]
    return (nll * mask).sum() / mask.sum()


@functools.partial(jax.jit, static_argnames="lr")
def train_step(params, mom, adj, x, label, mask, key, lr=0.2):
    loss, grads = jax.value_and_grad(loss_fn)(params, adj, x, label, mask, key)
    mom = jax.tree.map(lambda m, g: 0.9 * m + g, mom, grads)
    params = jax.tree.map(lambda p, m: p - lr * m, params, mom)
    return params, mom, loss


def main(steps=240):
    adj, x, label, train = block_model()
    adj, x, label = normalize(jnp.asarray(adj)), jnp.asarray(x), jnp.asarray(label)
    mask = jnp.asarray(train, dtype=jnp.float32)
    key = jax.random.PRNGKey(0)
    params = init_params(key, [x.shape[1], 32, 32, 7])
    mom = jax.tree.map(jnp.zeros_like, params)
    for step in range(1, steps + 1):
        key, sub = jax.random.split(key)
        params, mom, loss = train_step(params, mom, adj, x, label, mask, sub)
        if step % 20 == 0:
            print(f"step {step} loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
