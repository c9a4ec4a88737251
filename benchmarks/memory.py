"""How much memory `stepwhy explain` takes for large files of every format.

    python benchmarks/memory.py [--sizes 100,300] [--formats FORMAT;...] [--json FILE]

Files are generated (see `large_files.py`), explained with all passes and diagnoses in a process of
its own, and removed. The bound is the size of the uncompressed file and 300 MB; for stepwhy's own
store, whose columns are compressed, that of its columns. Exits with 1 when any file takes more.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from measuring import measure, read_ahead

SHARE, FIXED_MB = 1, 300
# A process of its own: a program's peak memory is never below that of the one that starts it.
FILES = [sys.executable, str(Path(__file__).with_name("large_files.py"))]


def printed(*arguments):
    """What `large_files.py` prints."""
    return json.loads(
        subprocess.run([*FILES, *arguments], check=True, stdout=subprocess.PIPE).stdout
    )


def measured(name, suffix, megabytes, folder):
    """What explaining a file of a format takes, for JSON."""
    path = Path(folder) / f"large{suffix}"
    size_mb = printed(name, str(megabytes), str(path)) / 1e6
    read_ahead(path)
    cost = measure([sys.executable, "-m", "stepwhy", "explain", str(path), "--json"])
    path.unlink()
    if cost.failed:
        return {"format": name, "mb": round(size_mb, 1), "failed": cost.failed}
    said = json.loads(cost.output)["inputs"][0]
    return {
        "format": name,
        "read_as": said["format"],
        "mb": round(size_mb, 1),
        "events": said["events_read"],
        "cpu_s": round(cost.cpu_s, 2),
        "peak_mb": round(cost.peak_mb),
        "bound_mb": round(SHARE * size_mb + FIXED_MB),
    }


def report(found):
    """Print the line of a file."""
    head = f"{found['format']:32} {found['mb']:7.1f} MB"
    if "failed" in found:
        print(f"{head} {found['failed']}")
        return
    over = "" if found["peak_mb"] <= found["bound_mb"] else "  MORE THAN ALLOWED"
    print(
        f"{head} {found['events']:10,} events {found['cpu_s']:7.2f} s CPU "
        f"{found['peak_mb']:5} MB of {found['bound_mb']}{over}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,300", help="in MB")
    parser.add_argument("--formats", help="default: all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    suffixes = printed()
    formats = arguments.formats.split(";") if arguments.formats else list(suffixes)
    document = {
        "schema": "stepwhy.memory/1",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": version("stepwhy"),
        "files": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in formats:
            for megabytes in map(int, arguments.sizes.split(",")):
                found = measured(name, suffixes[name], megabytes, folder)
                report(found)
                document["files"].append(found)
                if arguments.json:
                    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    files = document["files"]
    sys.exit(any("failed" in f or f["peak_mb"] > f["bound_mb"] for f in files))


if __name__ == "__main__":
    main()
