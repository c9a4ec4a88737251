"""What `stepwhy run` costs a training: whole runs, measured from outside.

    python benchmarks/capture.py [--seconds S] [--pairs N] [--only NAME]... [--json FILE]

The same program runs alone and under `stepwhy run`, both at once, each with all of its processes on
a core of its own, and they change cores from pair to pair: a shared machine that is busier in one
minute than in the next slows down both alike. (In turns A B B A, runs of a minute differed by 10 %
and more.) The program computes with one thread. Its steps do real work of 0.2, 1 or 10 ms (Keras
takes longer for its shortest step), and a run lasts a minute. Everything is included: hooks, traced
windows, sampling, writing. Not included is the report, which is written after the training.

Compared are the program's own clock from its first step to its last, and the CPU time of all
processes, less that of runs of a single step. What a run takes before and after its loop is shown
apart.

Bounds: 5 % of a loop of 0.2 ms steps, 1 % from 1 ms on, 100 ms at the start of a Python program,
and in a window at most 1.2 times the framework's bare profiler (`windows.py`). A bound of a loop is
kept when the whole interval keeps it, missed when the whole interval misses it, and unresolved
between. Runs are added to those in FILE, so that a quiet hour can be used for a part of them.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import windows
from measuring import measure

from stepwhy.analyse.steps.overhead import median_interval

PROGRAMS = Path(__file__).parent / "programs"
FRAMEWORKS = {  # what is shown: the program, the module that it needs, and its package
    "PyTorch": ("torch_loop.py", "torch", "torch"),
    "TensorFlow 1": ("session_loop.py", "tensorflow", "tensorflow-cpu"),
    "Keras": ("keras_loop.py", "keras", "keras"),
    "JAX": ("jax_loop.py", "jax", "jax"),
}
LENGTHS_MS = (0.2, 1, 10)
MANY_LAYERS = 50  # of the larger network that tells how long a layer takes
PROBE_STEPS = 1000
SHORT_MS, SHORT_BOUND, BOUND = 0.5, 0.05, 0.01
BOUND_START_MS = 100
FEWEST_PAIRS = 6  # an interval of a median needs as many


def observed(command, folder):
    """The same command under stepwhy, without the report."""
    out = Path(folder) / f"run-{time.monotonic_ns()}"
    return [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out), "--", *command]


def program(framework, layers, steps):
    """The command of a loop."""
    name, _, _ = FRAMEWORKS[framework]
    return [sys.executable, str(PROGRAMS / name), str(layers), str(steps)]


def run(command):
    """One run: seconds in its loop, in all, and of CPU time."""
    cost = measure(command)
    if cost.failed:
        sys.exit(f"{' '.join(command)}: {cost.failed}")
    return {"loop_s": float(cost.output), "wall_s": cost.wall_s, "cpu_s": cost.cpu_s}


def pinned(core, command):
    """The same command with all of its processes on one core."""
    return ["taskset", "-c", str(core), *command]


@functools.cache
def step_ms(framework, layers):
    """Time of a step alone on a core, ms: of the faster of two runs, as other programs run, too."""
    command = pinned(min(os.sched_getaffinity(0)), program(framework, layers, PROBE_STEPS))
    return 1000 * min(run(command)["loop_s"] for _ in range(2)) / PROBE_STEPS


def layers_for(framework, length_ms):
    """Layers of the network whose steps take so long; the shortest has one."""
    one, many = step_ms(framework, 1), step_ms(framework, MANY_LAYERS)
    each = max((many - one) / (MANY_LAYERS - 1), 1e-4)
    return max(round(1 + (length_ms - one) / each), 1)


def compare(framework, layers, steps, pairs, folder):
    """Runs alone and observed, both at once, and those of a single step."""
    found = {"plain": [], "observed": [], "plain_start": [], "observed_start": []}
    cores = sorted(os.sched_getaffinity(0))[:2]
    with ThreadPoolExecutor(2) as threads:
        for pair in range(pairs):
            for suffix, count in (("_start", 1), ("", steps)):
                plain = program(framework, layers, count)
                commands = (plain, observed(plain, folder))
                placed = map(pinned, cores[:: 1 - 2 * (pair % 2)], commands)
                for kind, one in zip(("plain", "observed"), threads.map(run, placed), strict=True):
                    found[f"{kind}{suffix}"].append(one)
    return found


def start_up(repeats, folder):
    """Wall time in ms of a Python program without any framework, plain and as observed child."""
    empty = Path(folder) / "empty.py"
    empty.write_text("")
    bootstrap = importlib.util.find_spec("stepwhy.record").submodule_search_locations[0]
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
            subprocess.run([sys.executable, str(empty)], env=environment, check=True)
            times[kind].append(1000 * (time.perf_counter() - start))
    found = {kind: statistics.median(values) for kind, values in times.items()}
    return {**found, "added_ms": found["observed"] - found["plain"]}


def verdict(interval, bound):
    """What an interval of the added share says of a bound; None for too few runs."""
    if interval is None:
        return f"unresolved: fewer than {FEWEST_PAIRS} pairs"
    if interval[1] <= bound:
        return "kept"
    return "missed" if interval[0] > bound else "unresolved: more pairs would tell"


def summary(row):
    """Figures of a case from its runs."""
    runs = row["runs"]
    ratios = [
        o["loop_s"] / p["loop_s"] - 1 for o, p in zip(runs["observed"], runs["plain"], strict=True)
    ]
    interval = median_interval(ratios) if len(ratios) >= FEWEST_PAIRS else None
    middle = {
        kind: {
            key: statistics.median(r[key] for r in runs[kind])
            for key in ("loop_s", "wall_s", "cpu_s")
        }
        for kind in runs
    }
    cpu = {
        kind: middle[kind]["cpu_s"] - middle[f"{kind}_start"]["cpu_s"]
        for kind in ("plain", "observed")
    }
    beyond = {
        kind: middle[kind]["wall_s"] - middle[kind]["loop_s"] for kind in ("plain", "observed")
    }
    step = 1000 * middle["plain"]["loop_s"] / row["steps"]
    bound = SHORT_BOUND if step < SHORT_MS else BOUND
    return {
        "step_ms": round(step, 3),
        "run_s": round(middle["plain"]["loop_s"], 1),
        "pairs": len(ratios),
        "added_share": round(statistics.median(ratios), 4),
        "interval": interval and [round(share, 4) for share in interval],
        "added_us_per_step": round(1000 * step * statistics.median(ratios), 2),
        "added_cpu_share": round(cpu["observed"] / cpu["plain"] - 1, 4),
        "start_and_end_added_s": round(beyond["observed"] - beyond["plain"], 2),
        "bound": bound,
        "verdict": verdict(interval, bound),
    }


def case(framework, length_ms, arguments, earlier, folder):
    """Measure a case, add its runs to earlier ones of the same size, and print it."""
    if earlier is None or arguments.afresh:
        layers = layers_for(framework, length_ms)
        steps = max(round(1000 * arguments.seconds / step_ms(framework, layers), -3), 1000)
        earlier = {"layers": layers, "steps": int(steps), "loads": [], "runs": {}}
    new = compare(framework, earlier["layers"], earlier["steps"], arguments.pairs, folder)
    runs = {kind: [*earlier["runs"].get(kind, ()), *new[kind]] for kind in new}
    loads = [*earlier["loads"], round(os.getloadavg()[1], 1)]
    row = {**earlier, "runs": runs, "loads": loads}
    row |= summary(row)
    print(
        f"{framework:13} {row['step_ms']:8.3f} ms {row['run_s']:6.1f} s "
        f"{100 * row['added_share']:+6.2f} % {100 * row['added_cpu_share']:+6.2f} % "
        f"{row['start_and_end_added_s']:6.2f} s  {row['verdict']}  load {loads[-1]}",
        flush=True,
    )
    return row


def versions():
    """Versions of what is installed of the frameworks."""
    packages = (
        package for _, module, package in FRAMEWORKS.values() if importlib.util.find_spec(module)
    )
    return {package: importlib.metadata.version(package) for package in packages}


def arguments_of(parser):
    parser.add_argument("--seconds", type=float, default=60, help="length of a loop")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs per kind of step")
    parser.add_argument("--only", action="append", help="a framework, a length in ms, or 'others'")
    parser.add_argument("--afresh", action="store_true", help="forget the runs in FILE")
    parser.add_argument("--repeats", type=int, default=5, help="of start-up and of each window")
    parser.add_argument("--json", type=Path, metavar="FILE", help="read and write the runs here")
    return parser.parse_args()


def main():
    arguments = arguments_of(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    chosen = arguments.only or [*FRAMEWORKS, "others"]
    frameworks = [f for f in FRAMEWORKS if f in chosen] or list(FRAMEWORKS)
    lengths = [ms for ms in LENGTHS_MS if str(ms) in chosen] or list(LENGTHS_MS)
    result = {}
    if arguments.json and arguments.json.is_file():
        result = json.loads(arguments.json.read_text())
    result |= {
        "date": datetime.now().astimezone().date().isoformat(),
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions(),
    }

    def keep():
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n")

    print(f"{'':13} {'step':>11} {'loop':>8} {'added':>8} {'CPU':>8} {'start':>8}")
    rows = result.setdefault("loops", {})
    with tempfile.TemporaryDirectory() as folder:
        if chosen != ["others"]:
            for framework in frameworks:
                if importlib.util.find_spec(FRAMEWORKS[framework][1]) is None:
                    print(f"{framework:13} left out: it is not installed")
                    continue
                for length_ms in lengths:
                    name = f"{framework}, {length_ms} ms"
                    rows[name] = case(framework, length_ms, arguments, rows.get(name), folder)
                    keep()
        if "others" in chosen:
            result["start-up"] = found = start_up(arguments.repeats, folder)
            kept = "kept" if found["added_ms"] <= BOUND_START_MS else "MISSED"
            print(f"{'start-up':13} {found['added_ms']:+8.1f} ms  {kept}")
            result["windows"] = windows.measure_all(arguments.repeats)
            keep()


if __name__ == "__main__":
    main()
