"""How fast the compiled scanner reads Kineto records on one core, beside simdjson.

    python benchmarks/scanner.py --simdjson g++ [--repeats N] [--json FILE] TRACE ...

Both read a text that is in memory already, in turns of a few times each, whole files from begin to
end. The scanner writes every field that stepwhy uses to columns. simdjson's parser on demand looks
at three and adds up kernels, which is the least that its users do; its other parser makes a
document of all. In brackets: how many times as long the scanner takes. Only plain files, not .gz.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from beside import compiled, told

from stepwhy.base.columns.compiled import load
from stepwhy.base.units import format_bytes
from stepwhy.read.formats.kineto.kernels.layout import ODD
from stepwhy.read.formats.kineto.lanes import STRETCH
from stepwhy.read.formats.kineto.sweep import Sweep
from stepwhy.read.shared.chrome_json.cuts import find_tail, next_record

AT_A_TIME = 3  # turns, so that a busy moment meets both


def scans(data, times):
    """Seconds that the scanner takes for all records of a text, so many times, and how many."""
    first = data.index(b"[", data.index(b'"traceEvents"')) + 1
    end = find_tail(data, first).cut.begin
    scan = load("stepwhy.read.formats.kineto.kernels.records").scan_records
    took, records = [], 0
    for _ in range(times):
        sweep = Sweep(scan, data)
        start = time.perf_counter()
        records, position = 0, first
        while position < end:
            swept = sweep.read(position, next_record(data, position + STRETCH, end))
            records, position = records + swept.records, swept.end
            if swept.status == ODD:  # a record for the other way to read
                position = next_record(data, position + 1, end)
        took.append(time.perf_counter() - start)
    return took, records


def parses(program, path, times):
    """Seconds that simdjson takes for the same text, on demand and as a whole, so many times."""
    run = subprocess.run([program, path, str(times)], capture_output=True, check=True, text=True)
    took = [float(line) for line in run.stdout.splitlines()[: 2 * times]]
    return took[:times], took[times:]


def compare(program, path, repeats):
    """All in turns: medians in gigabytes per second."""
    data = Path(path).read_bytes()
    took = {"scanner": [], "simdjson on demand": [], "simdjson document": []}
    for _ in range(repeats):
        times, records = scans(data, AT_A_TIME)
        for one, more in zip(
            took.values(), (times, *parses(program, path, AT_A_TIME)), strict=True
        ):
            one.extend(more)
    rates = {name: len(data) / statistics.median(times) / 1e9 for name, times in took.items()}
    return {
        "bytes": len(data),
        "records": records,
        "runs": repeats * AT_A_TIME,
        "gb_per_s": {name: round(rate, 3) for name, rate in rates.items()},
        "times_simdjson": {n: round(rates[n] / rates["scanner"], 2) for n in list(rates)[1:]},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--simdjson", metavar="COMPILER", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(given.simdjson, Path(folder))
        found = {Path(p).name: compare(program, p, given.repeats) for p in given.traces}
        result = {"simdjson": told(program), "traces": found}
    for name, one in found.items():
        print(f"{name}, {format_bytes(one['bytes'])}, {one['records']} records")
        for reader, rate in one["gb_per_s"].items():
            ratio = one["times_simdjson"].get(reader)
            print(f"  {reader:20} {rate:.2f} GB/s" + (f" ({ratio:.2f})" if ratio else ""))
    if given.json:
        Path(given.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
