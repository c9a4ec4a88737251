"""The layers of a residual network."""

import jax
import jax.numpy as jnp


def init(key, layers, width, classes=10):
    """The parameters; those of all layers are stacked."""
    keys = jax.random.split(key, 4)
    spread = width**-0.5
    return {
        "input": spread * jax.random.normal(keys[0], (width, width)),
        "layers": {
            "up": spread * jax.random.normal(keys[1], (layers, width, 2 * width)),
            "down": 0.1 * spread * jax.random.normal(keys[2], (layers, 2 * width, width)),
            "scale": jnp.ones((layers, width)),
        },
        "output": spread * jax.random.normal(keys[3], (width, classes)),
    }


def layer(hidden, params):
    """One residual block."""
    centred = hidden - hidden.mean(-1, keepdims=True)
    spread = jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-6)
    normal = params["scale"] * centred / spread
    return hidden + jax.nn.gelu(normal @ params["up"]) @ params["down"]
