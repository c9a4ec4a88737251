"""Resolve the paths, globs and addresses that the user named to files and run directories."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from stepwhy.base.errors import NotFoundError, NoTracesError
from stepwhy.read.inputs.folders import MOST_TRACES, Listing, too_many
from stepwhy.read.inputs.kinds import is_file, is_folder, is_there
from stepwhy.read.inputs.memory import ANY_SIZE
from stepwhy.read.inputs.reduced import IN_RUN, source_of
from stepwhy.read.inputs.remote.addresses import MAGIC, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias, TypeVar

    from stepwhy.read.inputs.remote.budget import Budget
    from stepwhy.read.inputs.remote.places import Remote

    P = TypeVar("P")
    Place: TypeAlias = "Local | Remote"
    Progress = Callable[[str, int, int], None]

_FILE = "file://"
# What `bench`, `compare` and `try` write beside their runs.
_RESULTS = frozenset({"bench.json", "compare.json", "trial.json"})


class Local(msgspec.Struct, frozen=True):
    """A file or run directory on this machine.

    Args:
        path: Its path.
        within: The folder in which it was found; None if the user named it.
        named: Its name in results, if that is not its path.
    """

    path: Path
    within: Path | None = None
    named: str = ""

    @property
    def shown(self) -> str:
        """Its name in results."""
        return self.named or str(self.path)

    @property
    def name(self) -> str:
        """The last component of its path."""
        return self.path.name

    @property
    def is_folder(self) -> bool:
        """Whether it is a run directory."""
        return is_folder(self.path)

    @contextmanager
    def here(self, _progress: Progress | None = None) -> Iterator[Path]:
        """Provide its path."""
        yield self.path


def resolve(names: Sequence[str]) -> list[Place]:
    """Files and run directories for paths, folders, globs and addresses, in order, each once.

    A link and its target count as the same file: some tools create a link to the newest trace.

    Raises:
        NotFoundError: If nothing exists under a name.
        NoTracesError: If a folder contains no file that could be a trace.
        UnsupportedFormatError: If an address is of a kind that cannot be read.
        InputError: If an address cannot be reached.
    """
    found: dict[Place | Path, Place] = {}
    for place in map(_prefer_trace, _all_behind(names)):
        found.setdefault(place.path.resolve() if isinstance(place, Local) else place, place)
    return list(found.values())


def _prefer_trace(place: Place) -> Place:
    """The trace that reduced ranks were made from, if it is there; any other place as it is."""
    source = source_of(place.path) if isinstance(place, Local) else None
    return place if source is None else Local(source, place.within)


def _all_behind(names: Sequence[str]) -> Iterator[Place]:
    """Resolve each name; all addresses share one budget."""
    budget: Budget | None = None
    for name in map(_without_file_scheme, names):
        if "://" not in name:
            yield from _local_places(name)
            continue
        from stepwhy.read.inputs.remote.budget import Budget  # noqa: PLC0415 - few names are addresses
        from stepwhy.read.inputs.remote.places import places_at  # noqa: PLC0415 - few names are addresses

        budget = budget or Budget()
        yield from _check_number(shown(name), places_at(name, budget))


def _without_file_scheme(name: str) -> str:
    if not name.lower().startswith(_FILE):
        return name
    return unquote(name[len(_FILE) :].removeprefix("localhost"))


# --- On this machine ---


def _local_places(name: str) -> list[Local]:
    if not name:  # not the current folder: most likely, a variable of the shell is not set
        raise NotFoundError("the path is empty", "Name a run directory, a trace or a folder")
    path = Path(name)
    if is_folder(path):
        return [Local(path)] if _is_run_directory(path) else _search_folder(path)
    if is_there(path):
        return [Local(path)]
    from stepwhy.read.inputs.search import matching  # noqa: PLC0415 - few names are patterns

    is_pattern = MAGIC.search(name) is not None
    matches = matching(name) if is_pattern else []
    if not matches:
        what = f"no file matches {shown(name)}" if is_pattern else f"{shown(name)} does not exist"
        raise NotFoundError(what, "Check the path")
    places = [place for match in matches for place in _resolve_match(match, name)]
    if not places:
        raise NoTracesError(f"{name} matches nothing but empty folders", "Give a trace file")
    return _check_number(name, places)


def _resolve_match(path: Path, pattern: str) -> list[Local]:
    """Resolve a match of a glob; a pipe is refused when it is opened, as in a folder."""
    if not is_folder(path):
        return [Local(path, None if is_file(path) else path.parent)]
    if _is_run_directory(path):
        return [Local(path)]
    # The content of the folder also matches.
    return [] if pattern.endswith("**") else _search_folder(path, may_be_empty=True)


def _is_run_directory(path: Path) -> bool:
    """Whether a folder is a run directory, or the directory of a process in one."""
    return is_file(path / "run.json") or is_file(path / "process.json")


def _search_folder(folder: Path, *, may_be_empty: bool = False) -> list[Local]:
    """The run directories in a folder, or all runs and traces in it and below."""
    from stepwhy.read.inputs.search import has_usual_ending, runs_and_files_below, usual  # noqa: PLC0415 - few names are folders
    from stepwhy.read.inputs.torch_npu import traces_only  # noqa: PLC0415 - likewise

    inner = [Path(entry) for entry in Listing(folder.name).entries(folder)]
    nested = [run for path in inner if (run := _run_in(path)) is not None]
    if nested:
        return _check_number(folder.name, [Local(path, folder) for path in nested])
    runs, files = runs_and_files_below(folder, _is_run_directory)
    if not runs and not files and not may_be_empty:
        raise NoTracesError(f"{folder.name or folder} is an empty folder", "Give a trace file")
    traces = usual(traces_only(files))
    if runs:
        traces = [p for p in traces if has_usual_ending(p.name) and p.name not in _RESULTS]
    return _check_number(folder.name, [Local(path, folder) for path in [*runs, *traces]])


def _run_in(path: Path) -> Path | None:
    """The run directory at a path, or the file of its reduced ranks without it."""
    if is_file(path / "run.json"):
        return path
    return path / IN_RUN if is_file(path / IN_RUN) else None


def _check_number(name: str, places: list[P]) -> list[P]:
    if len(places) > MOST_TRACES and os.environ.get(ANY_SIZE) != "1":
        raise too_many(name, len(places))
    return places
