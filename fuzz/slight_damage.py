"""Damage whole traces slightly, and check that only what is damaged is lost.

    python fuzz/slight_damage.py [PATH]... [--format NAME]... [--only DAMAGE]... [--largest MB]

Applies each kind of harmless damage (one NaN, a comma, a null, a raw newline or bad escape in a
name, text after the end, two traces in one file, a file cut off) to each trace file below the
given paths, and to generated files of the formats (default: the files in STEPWHY_TRACES and all
formats). Prints each fault: rows lost or changed beyond the damaged record, a loss that no counter
names, another verdict, and ways to read the same bytes that do not agree. Then it prints how often
what came of each kind of damage, by format. Exits with 1 when there are any faults.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from fuzz.formats import BY_NAME, seeds  # noqa: E402
from fuzz.slight.damages import damages  # noqa: E402
from fuzz.slight.judge import Whole  # noqa: E402
from stepwhy.base.errors import StepwhyError  # noqa: E402
from stepwhy.read.inputs.reading import read_source  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

Tables = dict[str, dict[str, Counter[str]]]
"""How often each outcome came of a kind of damage, by format."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--format", action="append", choices=list(BY_NAME), default=[])
    parser.add_argument("--only", action="append", default=[], metavar="DAMAGE")
    parser.add_argument("--largest", type=float, default=100.0, metavar="MB", help="default: 100")
    return parser.parse_args()


def files_of(given: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files to damage, decompressed."""
    recorded = [Path(p) for p in [os.environ.get("STEPWHY_TRACES")] if p]
    paths = given.paths or ([] if given.format else recorded)
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and (source := _source(file)) is not None:
                yield str(file), source
    for name in given.format or ([] if given.paths else BY_NAME):
        for number, files in enumerate(seeds(name)):
            yield f"{name} {number}", next(iter(files.values()))


def _source(path: Path) -> bytes | None:
    try:
        return read_source(path).data
    except StepwhyError:
        return None


def main() -> int:
    """Run what the command line asks for; the exit status."""
    given = _arguments()
    tables: Tables = defaultdict(lambda: defaultdict(Counter))
    faults = 0
    for name, data in files_of(given):
        if len(data) > given.largest * 1e6:
            print(f"{name}: larger than {given.largest} MB", flush=True)
            continue
        try:
            whole = Whole(data, name)
        except StepwhyError:
            continue
        for damage in damages(data):
            if given.only and damage.name not in given.only:
                continue
            outcome, found = whole.judge(damage)
            tables[whole.trace.meta.format][damage.name][_kind(outcome, found)] += 1
            for fault in found:
                faults += 1
                print(f"{name}: {damage.name}: {fault:.400} ({outcome})", flush=True)
    _show(tables)
    return int(faults > 0)


def _kind(outcome: str, faults: list[str]) -> str:
    """An outcome without its numbers."""
    if faults:
        return "FAULT"
    return outcome.partition(" ")[0].strip(":,")


def _show(tables: Tables) -> None:
    for name, kinds in tables.items():
        print(f"\n{name}")
        for damage, outcomes in kinds.items():
            told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
            print(f"  {damage:24} {told}")


if __name__ == "__main__":
    sys.exit(main())
