"""How long stepwhy takes as a whole process: `--help`, and `explain` on a trace of 80,000 events.

    python benchmarks/explain.py [--repeats N] [--json FILE] [TRACE]

Each command runs interleaved with two yardsticks, so that a busy machine slows all of them alike: a
Python that does nothing, and a Python that only decompresses the trace and decodes its JSON with
the standard library. Medians and their ratios to the yardsticks are printed.

Run it with the Python that has stepwhy installed, without `-e` and without development extras to
see what users get. The trace is the argument, else one of those in STEPWHY_TRACES, else generated.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generated_trace import kineto_trace

RECORDED = "kineto/r50_v100_nw0_2020_list.json.gz"
DECODE = "import gzip, json, sys; json.loads(gzip.open(sys.argv[1]).read())"
BUDGET_S = {"stepwhy --help": 0.3, "stepwhy explain": 1.5}


def find_trace(named, folder):
    """The trace to explain: the named one, a recorded one, or a generated one."""
    if named:
        return named
    recorded = Path(os.environ.get("STEPWHY_TRACES", "")) / RECORDED
    if recorded.is_file():
        return recorded
    generated = Path(folder) / "generated.json.gz"
    generated.write_bytes(gzip.compress(kineto_trace(events=80_000)))
    return generated


def commands(trace):
    """The measured commands by name."""
    stepwhy = [sys.executable, "-m", "stepwhy"]
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "json.loads": [sys.executable, "-c", DECODE, str(trace)],
        "stepwhy --help": [*stepwhy, "--help"],
        "stepwhy explain": [*stepwhy, "explain", str(trace)],
    }


def measure(command):
    """Wall time of one run of a command, in seconds."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def medians(runs, repeats):
    """Median wall time of each command in seconds, after one run of each that does not count."""
    for command in runs.values():
        measure(command)
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, command in runs.items():
            times[name].append(measure(command))
    return {name: statistics.median(values) for name, values in times.items()}


def count_events(trace):
    """Number of records in a Chrome trace."""
    data = trace.read_bytes()
    document = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return len(document if isinstance(document, list) else document["traceEvents"])


def report(result):
    """Print the medians and ratios as a table."""
    print(f"{result['events']:,} events, {result['bytes']:,} bytes, {result['repeats']} repeats\n")
    print(f"{'whole process':18} {'median':>9} {'/ pass':>8} {'/ json.loads':>13}  budget")
    seconds = result["median_s"]
    for name, value in seconds.items():
        budget = BUDGET_S.get(name)
        verdict = "" if budget is None else f"{budget} s {'kept' if value < budget else 'MISSED'}"
        ratios = f"{value / seconds['python -c pass']:8.1f} {value / seconds['json.loads']:13.2f}"
        print(f"{name:18} {1000 * value:6.0f} ms {ratios}  {verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = find_trace(arguments.trace, folder)
        result = {
            "trace": trace.name,
            "events": count_events(trace),
            "bytes": trace.stat().st_size,
            "repeats": arguments.repeats,
            "python": sys.version.split()[0],
            "median_s": medians(commands(trace), arguments.repeats),
        }
    report(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
