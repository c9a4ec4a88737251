"""How long `stepwhy serve` takes until the list of many runs is there.

    python benchmarks/serve.py [--runs N ...] [--out FILE]

The runs have results and pages of the size that a PyTorch trace of 300,000 events leads to. Each
server is a process of its own; times are from its start to the last byte of the list. Cold: without
an index; warm: with the one of an earlier start. Files are in the page cache in both.
"""

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path

from generated_trace import kineto_trace
from msgspec import structs

from stepwhy.engine.timeline import explain_with_timeline
from stepwhy.show import html
from stepwhy.show import json as json_report

EVENTS, REPEATS, REQUESTS, BRANCHES = 300_000, 5, 20, ("main", "loader", "compile")
DAY_NS = 86_400 * 10**9
START_NS = 1_790_000_000 * 10**9


def fetched(url):
    """The body of a page."""
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - the address is our own
        return answer.read()


def explained(folder):
    """The result and the page of one run."""
    trace = folder / "trace.json"
    trace.write_bytes(kineto_trace(events=EVENTS))
    result, timeline = explain_with_timeline([str(trace)])
    return result, html.render(result, timeline)


def write_runs(root, count, result, page):
    """Run directories with results that differ in their step times."""
    for number in range(count):
        folder = root / f"202609{number:05d}-train"
        folder.mkdir(parents=True)
        commit = f"{number // 4:040x}"
        run = {
            "schema": "stepwhy.run/1",
            "command": ["python", f"train_{number % 3}.py", "--lr", "0.1"],
            "started_ns": START_NS + number * DAY_NS // 8,
            "ended_ns": START_NS + number * DAY_NS // 8 + 10**11,
            "exit_code": 0,
            "commit": commit,
            "branch": BRANCHES[number % len(BRANCHES)],
        }
        (folder / "run.json").write_text(json.dumps(run))
        (folder / "report.html").write_text(page)
        factor = 1 + (number * 7919 % 23) / 100
        times = {
            n: round(getattr(result.steps, n) * factor) for n in ("median_ns", "p10_ns", "p90_ns")
        }
        changed = structs.replace(result, steps=structs.replace(result.steps, **times))
        (folder / "result.json").write_text(json_report.render(changed))


def opened(root, cache):
    """Seconds from the start to the first list, and of further requests."""
    environment = {**os.environ, "STEPWHY_CACHE": str(cache)}
    command = [sys.executable, "-m", "stepwhy", "serve", str(root), "--port", "0"]
    begin = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        base = server.stdout.readline().partition("?")[0]
        size = len(fetched(base))
        first = time.perf_counter() - begin
        later = []
        for _ in range(REQUESTS):
            begin = time.perf_counter()
            fetched(base)
            later.append(time.perf_counter() - begin)
        server.terminate()
    return first, statistics.median(later), size


def measured(count, result, page, folder):
    root, cold, warm, later = folder / str(count), [], [], []
    write_runs(root, count, result, page)
    for number in range(REPEATS):
        cache = folder / f"cache-{count}-{number}"
        cold.append(opened(root, cache)[0])
        first, again, size = opened(root, cache)
        warm.append(first)
        later.append(again)
    return {
        "runs": count,
        "result_kb": round(next(root.glob("*/result.json")).stat().st_size / 1e3),
        "page_kb": round(size / 1e3),
        "cold_s": round(statistics.median(cold), 3),
        "warm_s": round(statistics.median(warm), 3),
        "request_s": round(statistics.median(later), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[3, 200, 2000])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result, page = explained(folder)
        for count in options.runs:
            found.append(measured(count, result, page, folder))
            print(json.dumps(found[-1], indent=1), flush=True)
    about = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("starlette", "uvicorn")},
        "repeats": REPEATS,
    }
    if options.out:
        options.out.write_text(json.dumps({**about, "folders": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
