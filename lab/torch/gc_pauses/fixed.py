"""Keeps scores as Python lists, and collects garbage every thousand steps."""

import argparse
import gc

import clicks


def collect_rarely(step):
    if step % 1000 == 999:
        gc.collect()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    gc.freeze()
    gc.disable()
    clicks.train(options, after_step=collect_rarely)


if __name__ == "__main__":
    main()
