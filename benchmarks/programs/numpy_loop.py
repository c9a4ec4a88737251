"""Matrix products that take about two milliseconds, times a factor. No framework."""

import sys

import numpy as np

import stepwhy

FACTOR = float(sys.argv[1])
ROUNDS = round(40 * FACTOR)
matrix = np.random.default_rng(0).normal(size=(96, 96)) / 10
for _ in range(120):
    with stepwhy.step():
        product = matrix
        for _ in range(ROUNDS):
            product = np.tanh(matrix @ product)
