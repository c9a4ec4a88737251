"""Files beside a trace, and the logs and small files of a run directory: what they say."""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fuzz.formats import seeds as seeds_of
from fuzz.judge import judged, size_of
from fuzz.mutate import mutate
from fuzz.printed import broken_document
from fuzz.promises import of_result
from fuzz.run_seeds import run_directories
from fuzz.trees import HUGE, LINK, PIPE, remove_tree, write_tree
from stepwhy.engine import explain
from stepwhy.show.json import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from fuzz.formats import Files
    from fuzz.judge import Outcome, Verdict
    from stepwhy.result import Result

_MOST_FILES = 3
_RUN = "run.json"
# Windows are traces, which the formats' own inputs damage.
_WINDOWS = ("trace.json", "run_metadata.pb", "trace.xplane.pb")
# Seeds that are no run directories: the trace is named, not the folder.
_TRACES = ("run_metadata.pb", "trace.sqlite")
# A log may contradict the windows, by steps that were shorter than their kernels; and each rank has
# a breakdown of its own steps.
_NOT_PROMISED = ("busy: ", "breakdown: breakdown of rank ")
_PRIVATE = b"a-private-line-of-another-file"
_OUTSIDE = "outside.txt"


@cache
def seeds() -> tuple[Files, ...]:
    """Run directories, and traces with files beside them."""
    (nsys,) = seeds_of("nsys")[0].values()
    with_journal = {"trace.sqlite": nsys, "trace.sqlite-wal": b"", "trace.sqlite-journal": b""}
    return (*run_directories(), seeds_of("run_metadata")[1], with_journal)


def damage(files: Files, random: Random) -> Files:
    """Damage some files beside the trace, or put what is no file in their places."""
    beside = [n for n in list(files)[1:] if PurePosixPath(n).name not in _WINDOWS]
    beside += [_RUN] * (_RUN in files)
    for name in random.sample(beside, min(len(beside), 1 + random.randrange(_MOST_FILES))):
        data = files[name]
        if random.random() < 0.1:
            del files[name]
            files[name + random.choice((LINK, PIPE, HUGE))] = f"../{_OUTSIDE}".encode()
        else:
            alike = [files[n] for n in beside if n in files and n[-5:] == name[-5:]]
            files[name] = mutate(name, data, alike, random)
    return files


class FolderJudge:
    """Explains a file or a run directory, and looks at the result."""

    def __call__(self, files: Files, folder: Path) -> Outcome:
        """The outcome of one input.

        Args:
            files: The input: a trace and what lies beside it, or a run directory.
            folder: An empty folder for its files.
        """
        inside = folder / "given"
        inside.mkdir()
        (folder / _OUTSIDE).write_bytes(_PRIVATE)
        write_tree(files, inside)
        trace = next((name for name in _TRACES if name in files), "")
        try:
            return judged(lambda: _explained(inside / trace), lambda: size_of(files))
        finally:
            remove_tree(folder)


def _explained(path: Path) -> Verdict:
    result = explain([str(path)])
    broken = next(broken_result(result), "")
    if broken:
        return "failed", broken.partition(":")[0], broken
    return "explained", result.inputs[0].format, ""


def broken_result(result: Result) -> Iterator[str]:
    """Promises that a result does not keep, as 'promise: details'."""
    for finding in result.findings:
        if finding.verdict == "error":
            yield f"diagnosis {finding.id} failed: {finding.reason}"
    yield from (broken for broken in of_result(result) if not broken.startswith(_NOT_PROMISED))
    document = render(result)
    yield from broken_document(document.encode())
    if _PRIVATE.decode() in document:
        yield "leak: what another file holds"
