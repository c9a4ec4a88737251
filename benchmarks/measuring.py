"""Whole processes, measured in turns: wall time, CPU time and peak memory."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

KIB_OR_BYTES = 1e6 if sys.platform == "darwin" else 1e6 / 1024  # units of `ru_maxrss` in a MB


@dataclass(frozen=True)
class Cost:
    """One run of a command; `output` is what it printed, `failed` how it ended or None."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: bytes
    failed: str | None


def measure(command):
    """Run a command once."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = code = os.waitstatus_to_exitcode(status)
        output.seek(0)
        log.seek(0)
        last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
        return Cost(
            wall_s,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / KIB_OR_BYTES,
            output.read(),
            f"exit code {code}: {last[:200]}" if code else None,
        )


def in_turns(commands, repeats):
    """Runs of each command by name, one after the other; one that fails is not run again."""
    found = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            if not (found[name] and found[name][-1].failed):
                found[name].append(measure(command))
    return found


def read_ahead(path):
    """Have a file in the page cache, so that the first program does not wait for the disk."""
    with Path(path).open("rb") as file:
        while file.read(1 << 20):
            pass


def medians(runs):
    """Medians of the runs of one command, for JSON."""
    if runs[-1].failed:
        return {"failed": runs[-1].failed}
    return {
        "median_s": round(statistics.median(r.wall_s for r in runs), 3),
        "median_cpu_s": round(statistics.median(r.cpu_s for r in runs), 3),
        "peak_mb": round(statistics.median(r.peak_mb for r in runs), 1),
        "runs_s": [round(r.wall_s, 3) for r in runs],
    }


def with_ratios(results, own):
    """Results by name, with what each takes over what the one named `own` takes."""
    base = results[own]
    for result in results.values():
        if "failed" not in result and "failed" not in base:
            result["time_ratio"] = round(result["median_s"] / base["median_s"], 3)
            result["memory_ratio"] = round(result["peak_mb"] / base["peak_mb"], 3)
    return results


def line(name, result):
    """A result for people, under `TITLE`."""
    if "failed" in result:
        return f"{name:18} {result['failed']}"
    time_ratio, memory_ratio = (
        f"({result[key]:.2f})" if key in result else "" for key in ("time_ratio", "memory_ratio")
    )
    return (
        f"{name:18} {result['median_s']:8.2f} s {time_ratio:8} {result['median_cpu_s']:8.2f} s "
        f"{result['peak_mb']:7.0f} MB {memory_ratio:8}"
    )


TITLE = f"{'whole process':18} {'median':>10} {'ratio':8} {'CPU':>10} {'peak':>10} ratio"
