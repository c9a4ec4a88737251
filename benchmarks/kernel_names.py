"""List what recorded traces run on devices, with the class of each name, for review.

    python benchmarks/kernel_names.py [PATH]...

Reads every trace below the paths (default: STEPWHY_TRACES, and the folder beside it that ends in
2), and prints kind, family, library, number of records and name of all work on devices, most
records first. A line without a family is computation that the table of names does not know.
"""

import argparse
import os
from collections import Counter
from pathlib import Path

import numpy as np

from stepwhy.base.errors import StepwhyError
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.kernel_names import activity_row
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind, Role

OTHER_FILES = frozenset({".md", ".LICENSE"})


def default_folders():
    """The folder of recorded traces, and the one beside it."""
    first = Path(os.environ["STEPWHY_TRACES"])
    return [f for f in (first, first.with_name(f"{first.name}2")) if f.is_dir()]


def files_below(path):
    """The files below a path that may be traces."""
    if path.is_file():
        return [path]
    return sorted(f for f in path.rglob("*") if f.is_file() and f.suffix not in OTHER_FILES)


def device_work(path):
    """How many records of a file have each kind and name; none where it is no trace."""
    try:
        trace, _ = read_trace(read_source(path))
    except StepwhyError:
        return Counter()
    slices = trace.slices
    rows = np.flatnonzero(trace.tracks.role[slices.track] == Role.STREAM)
    pairs = zip(slices.kind[rows].tolist(), slices.name[rows].tolist(), strict=True)
    return Counter({(Kind(k), trace.string(n)): c for (k, n), c in Counter(pairs).items()})


def work_below(paths):
    """The work of all files below some paths."""
    return sum((device_work(file) for path in paths for file in files_below(path)), Counter())


def main():
    """Print the work of all files, most frequent first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    paths = parser.parse_args().paths or default_folders()
    for (kind, name), count in work_below(paths).most_common():
        row = activity_row(name)
        family, library = (row.family.value, row.library) if row else ("-", "-")
        print(f"{kind.name:18} {family:15} {library:34} {count:7} {name}")


if __name__ == "__main__":
    main()
