"""How often `stepwhy compare` is right: equal programs, and ones that are 5 and 10 % slower.

    python benchmarks/compare.py [--repetitions N] [--budget SECONDS] [--case NAME] [--json FILE]
    python benchmarks/compare.py --record RUNS.json [--runs N]
    python benchmarks/compare.py --resample RUNS.json [--repetitions N] [--pairs N] [--json FILE]

The first form makes real comparisons, each with its own fresh processes in turns, that end with an
answer or with the budget. The second one records steps of many runs of a program; the third one
draws runs from them that followed one another, and multiplies the steps of every second one.
Aims: equal programs are called faster or slower in at most 5 of 100 comparisons; on a quiet
machine, 5 % more work is found in at least 90 of 100; on a busy one, 10 % in at least 80 of 100.
"""

import argparse
import datetime as dt
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from msgspec.structs import replace

from stepwhy.engine import explain
from stepwhy.measure import Budget, Program, compare, measure_until_answered, sample
from stepwhy.record import launch

PROGRAM = Path(__file__).parent / "programs" / "numpy_loop.py"
CASES = {"identical": 1.0, "5 % slower": 1.05, "10 % slower": 1.1}
MARGIN = 0.03


def observe(factor, folder):
    """Run the program once, and explain it."""
    run_dir = Path(folder) / f"{time.monotonic_ns()}"
    command = [sys.executable, str(PROGRAM), str(factor)]
    launch(command, run_dir, output=Path(f"{run_dir}.log"))
    return str(run_dir), explain([str(run_dir)])


def real(factor, _random, budget):
    """One comparison of fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        programs = [
            Program(str(each), lambda _, each=each: observe(each, folder)) for each in (1.0, factor)
        ]
        return measure_until_answered(programs, Budget(budget), margin=MARGIN, allow_busy=True)


class Resampled:
    """Comparisons of recorded runs: neighbours in time stay neighbours."""

    def __init__(self, file, pairs):
        recorded = json.loads(Path(file).read_text())
        with tempfile.TemporaryDirectory() as folder:
            self.path, self.result = observe(1.0, folder)
        self.programs = recorded["runs"]
        self.pairs = pairs

    def __call__(self, factor, random, _budget):
        """One comparison; its runs take equal times, so that the budget allows `pairs`."""
        runs = self.programs[random.choice(sorted(self.programs))]
        clock = SimpleNamespace(now=0.0, next=int(random.integers(len(runs))))

        def run(scale):
            clock.now += 0.5
            steps = np.asarray(runs[clock.next % len(runs)]) * 1000 * scale
            clock.next += 1
            durations = tuple(int(step) for step in steps)
            described = replace(self.result.steps, durations_ns=durations, warm_up=0)
            return self.path, replace(self.result, steps=described, ops=())

        scales = (1.0, factor) if random.random() < 0.5 else (1.0 / factor, 1.0)
        programs = [Program(str(s), lambda _, s=s: run(s)) for s in scales]
        budget = Budget(self.pairs + 0.01, lambda: clock.now)
        return measure_until_answered(programs, budget, margin=MARGIN, allow_busy=True)


def repeat(trial, factor, repetitions, budget):
    """Verdicts, changes and durations of repeated comparisons."""
    random = np.random.default_rng(0)
    verdicts, changes, seconds, pairs = Counter(), [], [], []
    for number in range(repetitions):
        begin = time.monotonic()
        made = trial(factor, random, budget)
        said = compare(("a", "b"), made.a, made.b, margin=MARGIN, level=made.level)
        seconds.append(time.monotonic() - begin)
        verdicts[said.verdict] += 1
        changes.append(said.change)
        pairs.append(said.pairs)
        print(f"\r{number + 1}/{repetitions} {dict(verdicts)}   ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {
        "comparisons": repetitions,
        "verdicts": dict(verdicts),
        "median_change": round(float(np.median(changes)), 4),
        "median_pairs": float(np.median(pairs)),
        "median_seconds": round(float(np.median(seconds)), 1),
    }


def record(runs):
    """Steps of runs that follow one another, in microseconds, and the load of the machine."""
    steps, loads = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            path, result = observe(1.0, folder)
            steps.append([int(ns // 1000) for ns in sample(result, path).durations_ns])
            loads.append(os.getloadavg()[0])
            print(f"\r{number + 1}/{runs}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {**about(), "load": round(float(np.median(loads)), 2), "runs": {PROGRAM.stem: steps}}


def about():
    """Date, versions and machine of a measurement."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of a comparison")
    parser.add_argument("--pairs", type=int, default=8, help="most pairs of resampled runs")
    parser.add_argument("--runs", type=int, default=100, help="number of runs to record")
    parser.add_argument("--case", action="append", choices=CASES, help="only this; repeatable")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--resample", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if arguments.record:
        arguments.record.write_text(json.dumps(record(arguments.runs)) + "\n")
        return
    file = arguments.resample
    trial = Resampled(file, arguments.pairs) if file else real
    result = about() | ({"pairs": arguments.pairs} if file else {"budget_s": arguments.budget})
    for name in arguments.case or CASES:
        result[name] = repeat(trial, CASES[name], arguments.repetitions, arguments.budget)
        print(name, json.dumps(result[name]))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
