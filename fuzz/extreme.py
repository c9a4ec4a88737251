"""Explain small files with extreme content, and measure what each takes.

    python fuzz/extreme.py [--megabytes N] [--format NAME]... [--case TEXT] [--all] [--json FILE]
                           [--archive gz|xz]

Every file is valid, smaller than 10 MB, and has as much of one thing as fits into it: devices,
threads, names, steps. Each is explained in a process of its own, or with --all put through every
command that reads a trace. Exits with 1 when a process takes more than 20 s of a processor or 1 GB
of memory, or ends with anything but a result or a typed error.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from fuzz.extremes.cases import CASES  # noqa: E402
from fuzz.extremes.cost import MOST_CPU_S, MOST_MB, cost_of  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz.extremes.cases import Case
    from fuzz.formats import Files

_COMMANDS = {
    "explain": ("explain", "--json", "--all"),
    "explain --html": ("explain", "--html", "page.html"),
    "ops": ("ops",),
    "export": ("export", "--to", "perfetto", "--out", "exported.json"),
}


# The most that an archive may expand to, see `stepwhy.read.inputs.reading`.
_MOST_EXPANDED = 60
_PROBE = 2_000_000
_ARCHIVES = {
    "": lambda data: data,
    "gz": lambda data: gzip.compress(data, 6),
    "xz": lambda data: lzma.compress(data, preset=0),
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=9.9, help="size of each file")
    parser.add_argument("--format", action="append", help="default: all of them")
    parser.add_argument("--case", default="", help="only cases with this text in their name")
    parser.add_argument(
        "--archive", choices=("gz", "xz"), default="", help="compress each file to that size"
    )
    parser.add_argument("--all", action="store_true", help="every command, not only explain")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    return parser.parse_args()


def main() -> int:
    """Measure what the command line asks for; the exit status."""
    given = _arguments()
    chosen = [
        case
        for case in CASES
        if case.format in (given.format or {case.format}) and given.case in case.name
    ]
    commands = _COMMANDS if given.all else {"explain": _COMMANDS["explain"]}
    # Large files are read by compiled kernels where there are some.
    subprocess.run([sys.executable, "-m", "stepwhy.base.columns.compile"], check=False)
    found: list[dict[str, Any]] = []
    for case in chosen:
        for row in _of_case(case, int(given.megabytes * 1e6), commands, given.archive):
            print(_line(row), flush=True)
            found.append(row)
            if given.json:
                given.json.write_text(json.dumps(_document(found), indent=1) + "\n")
    return int(any(not row["is_allowed"] for row in found))


def _of_case(
    case: Case, size: int, commands: dict[str, tuple[str, ...]], archive: str
) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        files = _files(case, size, archive)
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        size = sum(map(len, files.values()))
        path = next(iter(files)) if len(files) == 1 else "."
        del files
        for name, (command, *options) in commands.items():
            cost = cost_of([command, path, *options], folder)
            yield {
                "format": case.format,
                "case": case.name,
                "archive": archive,
                "command": name,
                "mb": round(size / 1e6, 2),
                "cpu_s": round(cost.cpu_s, 1),
                "peak_mb": round(cost.peak_mb),
                "exit_code": cost.exit_code,
                "error": cost.error[:200],
                "is_allowed": cost.is_allowed,
            }


def _files(case: Case, size: int, archive: str) -> Files:
    """The files of a case, which have about that size after compression."""
    if not archive:
        return case.files(size)
    pack = _ARCHIVES[archive]
    ratio = min(len(data) / len(pack(data)) for data in case.files(_PROBE).values())
    files = case.files(int(size * min(ratio, _MOST_EXPANDED)))
    return {f"{name}.{archive}": pack(data) for name, data in files.items()}


def _line(row: dict[str, Any]) -> str:
    what = f"{row['format']:15} {row['case']:32} {row['command']:15} {row['mb']:5.1f} MB"
    cost = f"{row['cpu_s']:6.1f} s {row['peak_mb']:5} MB  exit {row['exit_code']}"
    return f"{what} {cost} {row['error'][:60]}{'' if row['is_allowed'] else '  MORE THAN ALLOWED'}"


def _document(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": "stepwhy.extremes/1",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("stepwhy", "numpy", "msgspec", "numba")},
        "allowed": {"cpu_s": MOST_CPU_S, "peak_mb": MOST_MB},
        "failed": sum(not row["is_allowed"] for row in found),
        "files": found,
    }


if __name__ == "__main__":
    sys.exit(main())
