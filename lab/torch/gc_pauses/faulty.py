"""Keeps scores as Python lists, which the garbage collector searches every few steps."""

import argparse

import clicks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    clicks.train(options, after_step=lambda _: None)


if __name__ == "__main__":
    main()
