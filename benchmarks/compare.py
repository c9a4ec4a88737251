"""How often `stepwhy compare` is right: identical programs, and one that is 10 % slower.

    python benchmarks/compare.py [--repetitions N] [--pairs N] [--json FILE]

Each repetition is a comparison of its own, with its own runs, in turns. Aims: 'same' or 'cannot
tell' in at least 95 of 100 comparisons of a program with itself, 'slower' in at least 90 of 100
where the second one does 10 % more work.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from stepwhy.bench import Program, compare, measure_pairs
from stepwhy.capture import launch
from stepwhy.engine import explain

PROGRAM = Path(__file__).parent / "programs" / "numpy_loop.py"
CASES = {"identical": 1.0, "10 % slower": 1.1}
MARGIN = 0.03


def program(factor, folder):
    """Something that `measure_pairs` can run."""

    def run(_number):
        run_dir = Path(folder) / f"{time.monotonic_ns()}"
        command = [sys.executable, str(PROGRAM), str(factor)]
        launch(command, run_dir, output=Path(f"{run_dir}.log"))
        return str(run_dir), explain([str(run_dir)])

    return Program(str(factor), run)


def repeat(factor, repetitions, pairs):
    """Verdicts, and the changes that were measured."""
    verdicts, changes, noise = Counter(), [], []
    for number in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            both = (program(1.0, folder), program(factor, folder))
            said = compare(("a", "b"), *measure_pairs(both, pairs), margin=MARGIN, requested=pairs)
        verdicts["void" if said.quiet is False else said.verdict] += 1
        changes.append(said.change)
        noise.append(said.detectable)
        print(f"\r{number + 1}/{repetitions} {dict(verdicts)}   ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {
        "verdicts": dict(verdicts),
        "median_change": sorted(changes)[len(changes) // 2],
        "median_detectable": sorted(noise)[len(noise) // 2],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    result = {"pairs": arguments.pairs, "repetitions": arguments.repetitions}
    for name, factor in CASES.items():
        result[name] = repeat(factor, arguments.repetitions, arguments.pairs)
        print(name, json.dumps(result[name]))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
