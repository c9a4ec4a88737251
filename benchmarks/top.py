"""How long `stepwhy top` takes per refresh, with simulated ranks.

    python benchmarks/top.py [--ranks N ...] [--refreshes N] [--latency-ms MS ...] [--out FILE]

Each rank has a log of some thousand steps, and one of samples. Between two refreshes, every log of
steps grows by ten steps. A refresh reads what is new, compares all ranks and draws the table for a
terminal of 120 x 40 characters. At the end all ranks hang: one has not entered the last of its
2,000 collectives, and each has noted where it stands. Files are in the page cache; the latency of a
shared folder on another machine is simulated by waiting so long whenever a file is opened.
"""

import argparse
import gzip
import io
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

from stepwhy.apps.top import LiveRanks
from stepwhy.apps.top import ranks as live_ranks
from stepwhy.base.regular_files import open_regular
from stepwhy.engine import stopped_ranks
from stepwhy.show.console import Console
from stepwhy.show.metrics.ranks import judge
from stepwhy.show.terminal.top import top_view

MS = 1_000_000
STEP_NS, EARLIER, ADDED, LATE = 100 * MS, 2000, 10, 517
COLLECTIVES = 2000
READ_S = 0.05  # as in `stepwhy.cli.top`


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


def collective(number, *, done):
    """An entry of the flight recorder."""
    frames = [{"name": "step", "filename": f"/job/model_{n}.py", "line": n} for n in range(12)]
    return {
        "frames": frames, "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"],
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
        "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18 + number * 50 * MS,
        "input_sizes": [[1 << 20]], "input_dtypes": ["Float"], "output_sizes": [[1 << 20]],
        "output_dtypes": ["Float"], "state": "completed" if done else "started", "is_p2p": False,
    }  # fmt: skip


def write_stalls(root, count):
    """What all ranks note when one hangs before the last collective."""
    made = [collective(n, done=n < COLLECTIVES) for n in range(1, COLLECTIVES + 1)]
    about = {"0": {"name": "0", "desc": "default_pg", "ranks": ""}}
    time_ns = 10**18 + 10**15
    for rank in range(count):
        is_late = rank == min(LATE, count - 1)
        entries = made[:-1] if is_late else made
        stall = {
            "schema": "stepwhy.stall/1", "time_ns": time_ns, "since_ns": time_ns - 10**11,
            "lines": ["train.py(9): main", f"train.py({40 if is_late else 31}): step"],
            "recorder": {"version": "2.10", "pg_config": about, "entries": entries},
        }  # fmt: skip
        path = root / f"rank-{rank}" / f"process-{1000 + rank}" / "stall.json.gz"
        path.write_bytes(stalls(is_late, stall))


def stalls(is_late, stall, known={}):  # noqa: B006 - a cache
    """The compressed file: two are different."""
    if is_late not in known:
        known[is_late] = gzip.compress(json.dumps(stall).encode(), 6)
    return known[is_late]


class Clock:
    """The time of the machine, plus what the benchmark skips."""

    skipped_s = 0.0

    def __call__(self):
        return time.monotonic() + self.skipped_s


def refresh(live, stopped):
    """Seconds of one refresh, and what it shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True)
    begin = time.perf_counter()
    ranks = judge(live.read())
    standing = stopped.read(ranks, READ_S)
    console.print(top_view("job", ranks, 120, 40, standing=standing))
    return time.perf_counter() - begin, stream.getvalue()


def hanging(root, count, clock, live, refreshes):
    """The refreshes after all ranks have stopped, s, and how many name the one that hangs."""
    write_stalls(root, count)
    stopped, times, named = stopped_ranks.StoppedRanks(clock), [], 0
    clock.skipped_s += 60
    for _ in range(refreshes):
        clock.skipped_s += 2
        seconds, text = refresh(live, stopped)
        times.append(seconds)
        named += "has not entered all_reduce" in text
    return times, named


def delayed(latency_s):
    """`open_regular` of a folder on another machine."""

    def open_later(*args, **options):
        time.sleep(latency_s)
        return open_regular(*args, **options)

    return open_later if latency_s else open_regular


def measured(count, refreshes, latency_ms):
    """The first refresh, and those after ten more steps, s."""
    live_ranks.open_regular = delayed(latency_ms / 1000)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_ranks(root, count)
        live, times = LiveRanks(root, clock, lambda: 10**18), []
        stopped = stopped_ranks.StoppedRanks(clock)
        first_s, text = refresh(live, stopped)
        for number in range(refreshes):
            append_steps(root, count, EARLIER + number * ADDED)
            seconds, text = refresh(live, stopped)
            times.append(seconds)
        if count > LATE and f"Rank {LATE} waits for input" not in text:
            raise SystemExit(f"the late rank is not named:\n{text}")
        hangs, named = hanging(root, count, clock, live, refreshes)
    return {
        "ranks": count,
        "latency_ms": latency_ms,
        "first_s": round(first_s, 4),
        "median_s": round(statistics.median(times), 4),
        "longest_s": round(max(times), 4),
        "hanging_median_s": round(statistics.median(hangs), 4),
        "hanging_longest_s": round(max(hangs), 4),
        "unnamed_refreshes": refreshes - named,
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
