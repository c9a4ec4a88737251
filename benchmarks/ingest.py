"""How long `stepwhy explain` takes for large Kineto traces, and how much memory; others beside it.

    python benchmarks/ingest.py [--sizes 100,500,1000] [--folder FOLDER] [--repeats N]
                                [--json benchmarks/results/ingest.json] [programs: see beside.py]

A generated trace is repeated in time until it has each of the sizes (MB); --folder keeps it for
another time. Where STEPWHY_TRACES names a folder of recorded traces, those of 25 MB or more,
decompressed, are measured, too. Whole processes are measured, in turns: `stepwhy explain --json`, a
Python that only decodes the file's JSON with the standard library, and what the options name of
Holistic Trace Analysis, torch-tb-profiler, Perfetto's trace processor and simdjson.

Medians, peak memory and their ratios to stepwhy are printed and written. What each program says of
the number of kernels, their durations and the time in which devices were busy is compared with what
is in the file. Exits with 1 when stepwhy says anything else.

Run it with the Python that has stepwhy installed, without `-e` and without development extras to
see what users get.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import beside
from measuring import TITLE, in_turns, line, medians, read_ahead, with_ratios

# By how much answers may differ, ns per kernel: Holistic Trace Analysis cuts starts and ends to
# microseconds, torch-tb-profiler and Perfetto round durations.
CUT_NS = {"HTA": 2000, "torch-tb-profiler": 1, "Perfetto": 1}
ROUNDING = 1e-6  # what is in the file was added up in doubles
LEAST_RECORDED_MB = 25


def differences(name, answer, written):
    """Figures of an answer that are not those of the file."""
    allowed_ns = CUT_NS.get(name, 0) * written["kernels"]
    found = []
    for key in ("kernels", "kernel_ns", "busy_ns"):
        allowed = 0 if key == "kernels" else allowed_ns + ROUNDING * written[key]
        if key in answer and abs(answer[key] - written[key]) > allowed:
            found.append(f"{key} {answer[key]:,.0f}, not {written[key]:,}")
    return found


def measured(trace, written, commands, repeats):
    """What each program takes for a trace and says of it, for JSON."""
    read_ahead(trace)
    runs = in_turns({n: [*command, str(trace)] for n, command in commands.items()}, repeats)
    results = with_ratios({name: medians(of_one) for name, of_one in runs.items()}, "stepwhy")
    for name, result in results.items():
        if "failed" in result:
            continue
        said = beside.answer(name, runs[name][-1].output)
        result["says"] = said
        result["differs"] = differences(name, said or {}, written)
    return {"bytes": trace.stat().st_size, "written": written, "programs": results}


def report(title, found):
    """Print the table of one trace."""
    print(f"\n{title}: {found['bytes'] / 1e6:,.0f} MB, {found['written']['kernels']:,} kernels")
    print(TITLE)
    for name, of_one in found["programs"].items():
        print(line(name, of_one))
        for difference in of_one.get("differs", ()):
            print(f"    says {difference}")


def made(folder, megabytes, of=None):
    """A trace and what is in it, made by a process of its own: a program's peak memory is never
    below that of the one that starts it."""
    script = str(Path(__file__).with_name("scaled_trace.py"))
    more = ["--of", str(of)] if of else []
    command = [sys.executable, script, str(folder), str(megabytes), *more]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def scaled(arguments, folder):
    """Title, path and content of a trace of each size."""
    for size in filter(None, arguments.sizes.split(",")):
        path, written = made(arguments.folder or folder, size, arguments.of)
        yield "scaled", Path(path), written
        if arguments.folder is None:
            Path(path).unlink()


def recordings(folder):
    """Title, path and content of the recorded traces of the sizes that are measured."""
    root = os.environ.get("STEPWHY_TRACES")
    for path in sorted(Path(root).rglob("*.json*")) if root else []:
        if decompressed(path) < LEAST_RECORDED_MB * 1_000_000:
            continue
        if (found := made(folder, 0, path)) is not None and found[1]["kernels"]:
            yield "recorded", Path(found[0]), found[1]


def decompressed(path):
    """Size of a file, decompressed: gzip keeps it in its last four bytes."""
    if path.suffix != ".gz":
        return path.stat().st_size
    with path.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(), "little")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,500,1000", help="in MB; none: ''")
    parser.add_argument("--folder", type=Path, help="where generated traces are kept")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--of", metavar="TRACE", help="recorded trace to repeat")
    parser.add_argument("--no-recorded", action="store_true", help="leave STEPWHY_TRACES alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    beside.add_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands, versions = beside.programs(arguments, folder)
        document = {
            "schema": "stepwhy.ingest/1",
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "cores": os.cpu_count(),
            "repeats": arguments.repeats,
            "versions": versions,
            "traces": [],
        }
        for sources in (
            scaled(arguments, folder),
            () if arguments.no_recorded else recordings(folder),
        ):
            for title, path, written in sources:
                found = measured(path, written, commands, arguments.repeats)
                report(title, found)
                document["traces"].append({"trace": title, **found})
                if arguments.json:
                    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [t for t in document["traces"] if t["programs"]["stepwhy"].get("differs", "failed")]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
