"""Smooths the spectra in operations that are compiled with the step."""

import argparse

import jax
import jax.numpy as jnp
import spectra


class Smoother:
    """Smooths from left to right, the more strongly the noisier a spectrum is."""

    def __init__(self, strongest=0.9):
        self.strongest = strongest

    def __call__(self, batch):
        noise = jnp.abs(jnp.diff(batch, axis=1)).mean(1)
        keep = jnp.minimum(100 * noise, self.strongest)

        def smooth(level, values):
            level = keep * level + (1 - keep) * values
            return level, level

        return jax.lax.scan(smooth, batch[:, 0], batch.T, unroll=8)[1].T


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()

    spectra.train(Smoother(), options.batch, options.steps)


if __name__ == "__main__":
    main()
