"""What a traced window costs the steps in it, against the framework's bare profiler.

    python benchmarks/windows.py [--repeats N] [--json FILE]

The same program runs under its framework's own profiler, as its guide says, and under stepwhy, in
turns. Compared is the mean step from the one in which the profiler starts to the one in which what
it saw is written. Bound: 1.2 times the bare profiler. A framework that is not installed is left
out, visibly.
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
CASES = {
    "torch.profiler": ("window_torch.py", "torch"),
    "RunMetadata": ("window_session.py", "tensorflow"),
    "tf.profiler": ("window_keras.py", "tensorflow"),
    "jax.profiler": ("window_jax.py", "jax"),
}
BOUND = 1.2


def bare(program):
    """Mean step in ms under the bare profiler, and the median one without."""
    command = [sys.executable, str(program), "bare"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    return statistics.mean(said["profiled"]) / 1e6, statistics.median(said["free"]) / 1e6


def observed(program, folder):
    """Mean step in ms in stepwhy's window, the median one without, and the steps in the window."""
    command = [
        sys.executable,
        "-m",
        "stepwhy",
        "run",
        "--quiet",
        "--out",
        str(folder),
        str(program),
    ]
    subprocess.run(command, capture_output=True, check=True)
    (log,) = folder.glob("process-*/steps*.jsonl")
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    free = [s["end_ns"] - s["start_ns"] for s in steps if not s["profiled"]]
    # Later steps are looked at one by one; see `single_steps.py`.
    first = next(list(group) for profiled, group in groupby(steps, _is_profiled) if profiled)
    window = [s["end_ns"] - s["start_ns"] for s in first]
    return statistics.mean(window) / 1e6, statistics.median(free[5:]) / 1e6, len(window)


def _is_profiled(step):
    return bool(step["profiled"])


def measure(name, repeats):
    """Figures of one case, in turns; prints them as a row."""
    program = PROGRAMS / CASES[name][0]
    theirs, ours, free, count = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            mean, without = bare(program)
            theirs.append(mean)
            free.append(without)
            mean, _, count = observed(program, Path(folder) / str(repeat))
            ours.append(mean)
    ratio = statistics.median(o / t for o, t in zip(ours, theirs, strict=True))
    figures = {
        "free_ms": statistics.median(free),
        "bare_ms": statistics.median(theirs),
        "stepwhy_ms": statistics.median(ours),
        "steps_in_window": count,
        "ratio": ratio,
        "kept": ratio <= BOUND,
    }
    print(
        f"{name:16} {figures['free_ms']:8.2f} ms {figures['bare_ms']:8.2f} ms "
        f"{figures['stepwhy_ms']:8.2f} ms {ratio:6.2f} x  {'kept' if figures['kept'] else 'MISSED'}"
    )
    return figures


def measure_all(repeats):
    """Figures of every case whose framework is installed, by its name."""
    print(f"{'':16} {'free':>11} {'bare':>11} {'stepwhy':>11} {'ratio':>8}")
    result = {}
    for name, (_, framework) in CASES.items():
        if importlib.util.find_spec(framework) is None:
            print(f"{name:16} left out: {framework} is not installed")
            continue
        result[name] = measure(name, repeats)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    result = measure_all(arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
