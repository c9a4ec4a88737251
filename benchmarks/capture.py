"""What `stepwhy run` costs a training: per step, at start-up, and in a traced window.

    python benchmarks/capture.py [--repeats N] [--json FILE]

The same program runs with and without stepwhy, interleaved A B B A, so that a busy machine slows
both alike. Its steps wait on the clock for a fixed time beside a small piece of framework work, so
the difference of the medians is what the observer adds. Profiled steps are told by the run's own
log and left out. A framework that is not installed is left out, visibly.

Bounds: at most 1 % of a 10 ms step, at most 20 us of any step, at most 100 ms at start-up, and in a
window at most 1.2 times the framework's bare profiler (`windows.py`).
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import windows

PROGRAMS = Path(__file__).parent / "programs"
CASES = {  # program, the framework it needs, length of a step in ms, steps
    "torch, 1 ms steps": ("torch_loop.py", "torch", 1, 1500),
    "torch, 10 ms steps": ("torch_loop.py", "torch", 10, 200),
    "session, 1 ms steps": ("session_loop.py", "tensorflow", 1, 1500),
    "session, 10 ms steps": ("session_loop.py", "tensorflow", 10, 200),
}
WARM_UP = 60  # steps at the beginning of each run that are left out, with the traced windows
BOUND_US = 20
BOUND_SHARE = 0.01
BOUND_START_MS = 100


def run(command):
    """Standard output of a command and its wall time in seconds."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, time.perf_counter() - start


def observed(command, folder):
    """The same command under stepwhy."""
    out = Path(folder) / f"run-{time.monotonic_ns()}"
    return [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out), "--", *command]


def step_times(text):
    """Times of the steps behind the warm-up, in us."""
    return [int(word) / 1000 for word in text.split()][WARM_UP:]


def compare(program, length_ms, steps, repeats, folder):
    """Median step in us without and with stepwhy, over all repeats, interleaved A B B A."""
    plain = [sys.executable, str(PROGRAMS / program), str(length_ms), str(steps)]
    medians = {"plain": [], "observed": []}
    for repeat in range(repeats):
        order = ("plain", "observed") if repeat % 2 == 0 else ("observed", "plain")
        for kind in order:
            command = plain if kind == "plain" else observed(plain, folder)
            medians[kind].append(statistics.median(step_times(run(command)[0])))
    return {kind: statistics.median(values) for kind, values in medians.items()}


def start_up(repeats, folder):
    """Wall time in ms of a Python program without any framework, plain and as observed child."""
    program = Path(folder) / "empty.py"
    program.write_text("")
    bootstrap = importlib.util.find_spec("stepwhy.capture").submodule_search_locations[0]
    run_dir = Path(folder) / "start"
    run_dir.mkdir()
    (run_dir / "attached").touch()
    attached = {
        **os.environ,
        "PYTHONPATH": str(Path(bootstrap) / "bootstrap"),
        "STEPWHY_RUN_DIR": str(run_dir),
    }
    times = {"plain": [], "observed": []}
    for _ in range(3 * repeats):
        for kind, environment in (("plain", dict(os.environ)), ("observed", attached)):
            start = time.perf_counter()
            subprocess.run([sys.executable, str(program)], env=environment, check=True)
            times[kind].append(1000 * (time.perf_counter() - start))
    return {kind: statistics.median(values) for kind, values in times.items()}


def verdict(kept):
    return "kept" if kept else "MISSED"


def report_steps(name, length_ms, medians):
    """Print one case; returns it as a row of figures."""
    added_us = medians["observed"] - medians["plain"]
    share = added_us / medians["plain"]
    # Clock jitter on long steps exceeds 20 us: they show the share, the short ones the time.
    kept = share <= BOUND_SHARE if length_ms >= 10 else added_us <= BOUND_US
    print(
        f"{name:22} {medians['plain']:9.1f} us {medians['observed']:9.1f} us "
        f"{added_us:+7.1f} us {100 * share:+6.2f} %  {verdict(kept)}"
    )
    return {**medians, "added_us": added_us, "share": share, "kept": kept}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    print(f"{'':22} {'plain':>12} {'observed':>12} {'added':>10}   load {os.getloadavg()[0]:.1f}")
    result = {"python": sys.version.split()[0], "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        for name, (program, framework, length_ms, steps) in CASES.items():
            if importlib.util.find_spec(framework) is None:
                print(f"{name:22} left out: {framework} is not installed")
                continue
            medians = compare(program, length_ms, steps, arguments.repeats, folder)
            result[name] = report_steps(name, length_ms, medians)
        times = start_up(arguments.repeats, folder)
    added = times["observed"] - times["plain"]
    print(
        f"{'start-up':22} {times['plain']:9.1f} ms {times['observed']:9.1f} ms {added:+7.1f} ms"
        f"           {verdict(added <= BOUND_START_MS)}"
    )
    result["start-up"] = {**times, "added_ms": added}
    result["windows"] = windows.measure_all(arguments.repeats)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
