"""The page of what `stepwhy run` costs a training, from the kept results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "capture.json"

INTRODUCTION = """\
What a training pays for `stepwhy run`. The same program runs alone and observed, both at once, each
with all of its processes on a core of its own, and they change cores from pair to pair
(`python benchmarks/capture.py --json benchmarks/results/capture.json`). Everything is included:
what runs in each step, traced windows, sampling from outside, and writing. Not included is the
report, which is written after the training. The programs compute with one thread.

*Loop* is what the program's own clock shows from its first step to its last: the median of the
pairs, with its 95 % interval. *Alone* is the spread of the program's runs without stepwhy, from the
shortest to the longest, which shows how steady the machine was. *CPU* is the time of all processes,
those of stepwhy included, less that of runs of a single step. *Start and end* is what the whole
command takes longer besides, which is mostly stepwhy's own start. The bounds are 5 % for steps of
0.2 ms and 1 % from 1 ms on, in runs of a minute; shorter runs pay more for their traced windows.

The code that times a step takes up to 5 µs by itself, most of it because the training has evicted
that code from the CPU caches, and what observes one more closely 15 to 50 µs; whole runs pay more,
as the table shows. Three steps in four are observed; of steps shorter than 10 ms, after one second,
24 in 320 ms, and of steps shorter than 3 ms, 24 in two seconds. Where all cores are busy, observing
costs more: reading the CPU time of a thread lets Linux 6.18 end its time slice at once, so that
observed steps are interrupted more often. py-spy takes some 0.07 s of CPU time whenever it samples
a process without children, and samples again once the run is so long that this stays below 0.3 %
of a core for each process, and below 1 % in all.

Steps of 1 ms of PyTorch take some 4 % longer for the whole run, in runs of half a minute, alone and
observed at once (3.7 % in ten pairs, 4.1 % in six). Runs of eleven seconds tell where that comes
from, with the first four seconds left out, in three pairs each, on a machine that was not quiet
enough to resolve half a point: 0.8 % remain with neither instrumentation nor sampling, 2 to 4 %
without sampling, 3 to 4 % with everything. So sampling from outside takes about a point where the
training has no other core to leave it. Half of the rest was timed inside: 6 µs in each step between
the optimizer and the program, and 1 to 2 ms whenever steps are written to the log, every 0.4 s. The
other half was not timed; it may be what the training then fetches again into the caches. `python
benchmarks/after_window.py` measures whether a window of PyTorch's own profiler slows the steps
after it in a program without stepwhy.

The rows of the table were measured earlier, with the runs in turns.

"""

HEAD = (
    "loop",
    "step",
    "time",
    "pairs",
    "alone",
    "loop takes longer",
    "CPU",
    "start and end",
    "bound",
)


def load() -> dict[str, Any]:
    """The kept results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line of the table for each loop."""
    for name, row in found.get("loops", {}).items():
        interval = row["interval"]
        alone = [run["loop_s"] for run in row["runs"]["plain"]]
        span = "" if interval is None else f" ({_percent(interval[0])} to {_percent(interval[1])})"
        yield (
            name.partition(",")[0],
            f"{row['step_ms']:.2f} ms",
            f"{row['run_s']:.0f} s",
            str(row["pairs"]),
            f"{100 * (max(alone) / min(alone) - 1):.1f} %",
            f"{_percent(row['added_share'])}{span}",
            _percent(row["added_cpu_share"]),
            f"{row['start_and_end_added_s']:.1f} s",
            f"{100 * row['bound']:.0f} %: {row['verdict']}",
        )


def conditions(found: dict[str, Any]) -> str:
    """When, with what and beside how much other work this was measured."""
    if not found.get("loops"):
        return "No loop has been measured yet.\n"
    names = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    loads = [load for row in found.get("loops", {}).values() for load in row["loads"]]
    return (
        f"\nMeasured on {found['date']} with {found['cores']} cores, Python {found['python']}, "
        f"{names}. The load average was {min(loads)} to {max(loads)}. Where it exceeds the number "
        "of cores, other programs decide the figures, and lengthen the steps.\n"
    )


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"
