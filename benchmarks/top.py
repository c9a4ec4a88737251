"""How long `stepwhy top` takes per refresh, with simulated ranks.

    python benchmarks/top.py [--ranks N ...] [--refreshes N] [--latency-ms MS ...] [--out FILE]

Each rank has a log of some thousand steps, and one of samples. Between two refreshes, every log of
steps grows by ten steps. A refresh reads what is new, compares all ranks and draws the table for a
terminal of 120 x 40 characters. Files are in the page cache; the latency of a shared folder on
another machine is simulated by waiting so long whenever a file is opened.
"""

import argparse
import io
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

from stepwhy.capture.live import LiveRanks, tail
from stepwhy.metrics.ranks import judge
from stepwhy.regular_files import open_regular
from stepwhy.report.console import Console
from stepwhy.report.terminal.top import top_view

MS = 1_000_000
STEP_NS, EARLIER, ADDED, LATE = 100 * MS, 2000, 10, 517


def step(number, rank):
    """A line of the log of steps; one rank waits for its input."""
    start_ns = 10**18 + number * STEP_NS
    wait_ns = 30 * MS if rank == LATE else 2 * MS + (rank * 7919 + number) % MS
    return json.dumps({
        "kind": "step", "start_ns": start_ns, "end_ns": start_ns + STEP_NS, "profiled": 0,
        "input_wait_ns": wait_ns, "cpu_ns": 40 * MS + (rank * 104729 + number) % MS,
    }) + "\n"  # fmt: skip


def sample(number, rank):
    """A line of the log of samples."""
    gpu = {"index": rank % 8, "utilisation_percent": 97, "used_bytes": 60 << 30}
    return json.dumps({
        "time_ns": 10**18 + number * 10**9, "cpu_ns": number * 10**9, "resident_bytes": 8 << 30,
        "threads": 64, "gpus": [gpu | {"total_bytes": 80 << 30, "name": "NVIDIA H100 80GB HBM3"}],
    }) + "\n"  # fmt: skip


def write_ranks(root, count):
    """Run directories of all ranks."""
    for rank in range(count):
        folder = root / f"rank-{rank}" / f"process-{1000 + rank}"
        folder.mkdir(parents=True)
        about = {"framework": "pytorch", "rank": rank, "world_size": count, "ended_ns": None}
        (folder / "process.json").write_text(json.dumps(about))
        (folder / "steps.jsonl").write_text("".join(step(n, rank) for n in range(EARLIER)))
        (folder / "counters.jsonl").write_text("".join(sample(n, rank) for n in range(100)))


def append_steps(root, count, first):
    """Ten more steps of each rank."""
    for rank in range(count):
        folder = root / f"rank-{rank}" / f"process-{1000 + rank}"
        with (folder / "steps.jsonl").open("a") as log:
            log.writelines(step(n, rank) for n in range(first, first + ADDED))


def refresh(live):
    """Seconds of one refresh, and what it shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True)
    begin = time.perf_counter()
    console.print(top_view("job", judge(live.read()), 120, 40))
    return time.perf_counter() - begin, stream.getvalue()


def delayed(latency_s):
    """`open_regular` of a folder on another machine."""

    def open_later(*args, **options):
        time.sleep(latency_s)
        return open_regular(*args, **options)

    return open_later if latency_s else open_regular


def measured(count, refreshes, latency_ms):
    """The first refresh, and those after ten more steps, s."""
    tail.open_regular = delayed(latency_ms / 1000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_ranks(root, count)
        live, times = LiveRanks(root), []
        first_s, text = refresh(live)
        for number in range(refreshes):
            append_steps(root, count, EARLIER + number * ADDED)
            seconds, text = refresh(live)
            times.append(seconds)
        if count > LATE and f"Rank {LATE} waits for input" not in text:
            raise SystemExit(f"the late rank is not named:\n{text}")
    return {
        "ranks": count,
        "latency_ms": latency_ms,
        "first_s": round(first_s, 4),
        "median_s": round(statistics.median(times), 4),
        "longest_s": round(max(times), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 128, 1024])
    parser.add_argument("--refreshes", type=int, default=20)
    parser.add_argument("--latency-ms", type=float, nargs="+", default=[0, 2])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = [
        measured(count, options.refreshes, latency_ms)
        for count in options.ranks
        for latency_ms in options.latency_ms
    ]
    document = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "steps_added": ADDED,
        "results": found,
    }
    text = json.dumps(document, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
