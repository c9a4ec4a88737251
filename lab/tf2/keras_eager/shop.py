"""Purchases of a shop, and two networks that guess whether a customer buys an article."""

import keras
import numpy as np
from keras import layers

CUSTOMERS, ARTICLES, NUMBERS = 4000, 1500, 13


def purchases(count):
    """Columns of random purchases, and whether each was one."""
    random = np.random.default_rng(0)
    columns = {
        "customer": random.integers(0, CUSTOMERS, count, np.int32),
        "article": random.integers(0, ARTICLES, count, np.int32),
        "numbers": random.standard_normal([count, NUMBERS]).astype(np.float32),
    }
    bought = columns["numbers"][:, 0] + 0.3 * random.standard_normal(count) > 0
    return columns, bought.astype(np.float32)


class Cross(layers.Layer):
    """Multiplies the features with a projection of themselves."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), name="kernel")
        self.bias = self.add_weight(shape=(shape[-1],), initializer="zeros", name="bias")

    def call(self, first, last):
        return first * (last @ self.kernel + self.bias) + last


class Expert(layers.Layer):
    """A small network with a normalisation and a residual connection."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.norm = layers.LayerNormalization()
        self.inner = layers.Dense(2 * width, activation="gelu")
        self.outer = layers.Dense(width)

    def call(self, features):
        return features + self.outer(self.inner(self.norm(features)))


class Recommender(keras.Model):
    """Embeddings of customer and article, and what the subclass makes of them.

    Args:
        width: Length of an embedding.
    """

    def __init__(self, width):
        super().__init__()
        self.customers = layers.Embedding(CUSTOMERS, width)
        self.articles = layers.Embedding(ARTICLES, width)
        self.numbers = layers.Dense(width, activation="relu")
        self.score = layers.Dense(1)

    def features(self, columns):
        """The embeddings and the numbers of a batch, side by side."""
        parts = (
            self.customers(columns["customer"]),
            self.articles(columns["article"]),
            self.numbers(columns["numbers"]),
        )
        return keras.ops.concatenate(parts, axis=-1)


class CrossNetwork(Recommender):
    def __init__(self, width, depth):
        super().__init__(width)
        self.crosses = [Cross() for _ in range(depth)]

    def call(self, columns):
        first = last = self.features(columns)
        for cross in self.crosses:
            last = cross(first, last)
        return self.score(last)


class Mixture(Recommender):
    """Experts, weighted by a gate."""

    def __init__(self, width, depth):
        super().__init__(width)
        self.experts = [Expert(3 * width) for _ in range(depth)]
        self.gate = layers.Dense(depth, activation="softmax")

    def call(self, columns):
        features = self.features(columns)
        opinions = keras.ops.stack([expert(features) for expert in self.experts], axis=1)
        return self.score(keras.ops.einsum("be,bef->bf", self.gate(features), opinions))


MODELS = {"cross": CrossNetwork, "mixture": Mixture}
