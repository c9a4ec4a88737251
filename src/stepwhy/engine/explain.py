"""Explain a run: read its files, compute the facts, and assemble the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.answers.placement import placement_of
from stepwhy.answers.verdict import decide
from stepwhy.engine.assemble import assemble
from stepwhy.engine.privacy import redacted_errors, redactor_of
from stepwhy.engine.rank_sets import (
    Analysed,
    Opened,
    given_twice,
    numbered,
    why_several,
    without_copies,
)
from stepwhy.engine.ranks import combine, same_run
from stepwhy.errors import InputError, NoPlacementError, NoTracesError, SeveralRunsError
from stepwhy.findings import Result
from stepwhy.importers.registry import read_folder, read_trace
from stepwhy.inputs.kinds import is_file, is_folder
from stepwhy.inputs.places import resolve
from stepwhy.inputs.reading import read_source
from stepwhy.inputs.remote.addresses import shown
from stepwhy.inputs.torch_npu import rank_beside, world_size_beside
from stepwhy.inputs.within import check_within
from stepwhy.passes.facts import Facts
from stepwhy.passes.rank_summary import summarise_rank
from stepwhy.trace import NULL
from stepwhy.trace.ranks import split_ranks
from stepwhy.trace.redacting import redacted
from stepwhy.wording.notes import left_out, other_processes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.engine.privacy import Redact
    from stepwhy.findings import Placement
    from stepwhy.inputs.places import Place
    from stepwhy.redaction import Redactor
    from stepwhy.trace import Trace

    Progress = Callable[[str, int, int], None]


Seen = Callable[[Opened, Facts, Result], None]
"""Called with each trace, its facts and its result, before the facts are freed."""


def explain(
    names: Sequence[str],
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    predict: bool = True,
    seen: Seen | None = None,
) -> Result:
    """Explain files, folders, globs, addresses or run directories as one run.

    Args:
        names: The inputs, as the user named them.
        progress: Called with (current activity, amount done, total amount); amounts are files, or
            bytes during a download, and the total is 0 if unknown.
        redact: Whether to replace secrets and private facts in the result, the messages of errors
            and the texts for `progress`; or the redactor to use.
        predict: Whether to predict what fixes would gain.
        seen: Called with each trace, its facts and its result.

    Raises:
        InputError: No input can be explained, or several inputs are not ranks of one run.
    """
    opened, skipped = open_run(names, progress, redact=redact)
    return explain_opened(opened, skipped, progress, predict=predict, seen=seen)


def explain_opened(
    opened: Sequence[Opened],
    skipped: list[str],
    progress: Progress | None = None,
    *,
    predict: bool = True,
    seen: Seen | None = None,
) -> Result:
    """Explain traces as one run.

    Args:
        opened: The traces.
        skipped: Notes on what was left out.
        progress: As in `explain`.
        predict: Likewise.
        seen: Likewise.

    Raises:
        SeveralRunsError: They are no ranks of one run.
    """
    analysed = analyse_all(opened, progress, predict=predict, seen=seen)
    return combine(analysed, skipped, predict=predict)


def analyse_all(
    opened: Sequence[Opened],
    progress: Progress | None = None,
    *,
    predict: bool = True,
    seen: Seen | None = None,
) -> list[Analysed]:
    """The results of the ranks of one run.

    Args:
        opened: The traces.
        progress: As in `explain`.
        predict: Likewise; for several ranks, `combine` predicts.
        seen: As in `explain`.

    Raises:
        SeveralRunsError: They are no ranks of one run.
    """
    opened = ranks_of(opened)
    analysed = []
    for done, one in enumerate(opened):
        if progress:
            progress(f"analysing {one.path}", done, len(opened))
        analysed.append(analyse(one, predict=predict and len(opened) == 1, seen=seen))
    return analysed


def ranks_of(opened: Sequence[Opened]) -> list[Opened]:
    """One trace per rank of a run, by number.

    Args:
        opened: The traces of its files.

    Raises:
        SeveralRunsError: They are no ranks of one run.
    """
    ranks = [replace(one, trace=rank) for one in opened for rank in split_ranks(one.trace)]
    metas = [one.trace.meta for one in ranks]
    if len(ranks) > 1 and not same_run(metas):
        why = why_several(metas)
        if (twice := given_twice(metas)) is not None:
            first, second, *_ = [one.path for one in ranks if one.trace.meta.rank == twice]
            raise SeveralRunsError(
                f"rank {twice} is recorded twice, in {first} and in {second}: these are "
                f"{len(ranks)} different runs, not ranks of one run",
                "Explain the files of one run",
            )
        raise SeveralRunsError(
            f"these are {len(ranks)} different runs, not ranks of one run: {why}",
            f"Explain them one at a time, starting with {ranks[0].path}",
        )
    return sorted(ranks, key=lambda one: one.trace.meta.rank)


def analyse(one: Opened, *, predict: bool = True, seen: Seen | None = None) -> Analysed:
    """The result of one trace, and what other ranks are compared with."""
    facts = Facts(one.trace)
    result = assemble(facts, one.path, one.format, predict=predict)
    if seen is not None:
        seen(one, facts, result)
    return Analysed(
        one.trace, result, facts.derived(decide), facts.derived(summarise_rank), facts.calls
    )


def read_placement(
    name: str, progress: Progress | None = None, *, redact: Redact = True
) -> Placement:
    """The placement of all operations of a run's graph.

    Args:
        name: The input, as the user named it.
        progress: As in `explain`.
        redact: As in `explain`.

    Raises:
        InputError: It cannot be read, or does not record where operations ran.
    """
    redactor = redactor_of(redact)
    opened, _ = open_run([name], progress, redact=redactor)
    for one in opened:
        placement = placement_of(Facts(one.trace))
        if placement is not None:
            return placement
    raise NoPlacementError(
        f"{redactor.text(shown(name))} does not record where operations ran",
        "Record a TensorFlow session with 'stepwhy run', or with output_partition_graphs",
    )


def open_run(
    names: Sequence[str], progress: Progress | None = None, *, redact: Redact = True
) -> tuple[list[Opened], list[str]]:
    """Read files, folders, globs, addresses or run directories.

    Args:
        names: The inputs, as the user named them.
        progress: As in `explain`.
        redact: As in `explain`.

    Returns:
        The traces, and notes on what was left out. Of several processes of one run that are not
        ranks, only the trace of the main one.

    Raises:
        InputError: No input can be read.
    """
    redactor = redactor_of(redact)
    with redacted_errors(redactor):
        places = resolve(names)
        opened, skipped = open_places(places, redactor, _redacted(progress, redactor))
    opened, by_name = numbered(opened)
    opened, copies = without_copies(opened)
    return opened, [*skipped, *left_out(copies), *by_name]


def open_one(name: str, progress: Progress | None = None, *, redact: Redact = True) -> Opened:
    """Read a file, folder, glob, address or run directory that contains a single trace.

    Args:
        name: The input, as the user named it.
        progress: As in `explain`.
        redact: As in `explain`.

    Raises:
        InputError: It cannot be read, or contains several traces.
    """
    redactor = redactor_of(redact)
    opened, _ = open_run([name], progress, redact=redactor)
    if len(opened) > 1:
        raise SeveralRunsError(
            f"{redactor.text(shown(name))} contains {len(opened)} traces, of several ranks or runs",
            f"Name one of them, such as {opened[0].path}",
        )
    return opened[0]


def _redacted(progress: Progress | None, redactor: Redactor) -> Progress | None:
    """The same callback for progress, called with redacted texts."""
    if progress is None:
        return None
    return lambda text, done, total: progress(redactor.text(text), done, total)


def open_places(
    places: Sequence[Place], redactor: Redactor, progress: Progress | None
) -> tuple[list[Opened], list[str]]:
    """Read all places; among several, those that cannot be read are only noted.

    Args:
        places: Where the traces are.
        redactor: What replaces secrets.
        progress: As in `explain`.

    Returns:
        The traces, and notes on what could not be read beside them.

    Raises:
        InputError: Nothing can be read.
    """
    opened: list[Opened] = []
    skipped: list[str] = []
    beside: list[str] = []
    for done, place in enumerate(places):
        try:
            with place.here(progress) as path:
                if progress:
                    progress(f"reading {place.name}", done, len(places))
                found, others = _main_process(_open(path, place.shown, place.within))
                opened += [_public(one, redactor) for one in found]
                beside += map(redactor.text, others)
        except InputError as error:
            if len(places) == 1:
                raise
            skipped.append(redactor.text(error.what))
    if not opened:
        raise NoTracesError(
            f"none of the {len(places)} files is a readable trace; the first: {skipped[0]}",
            "Name the trace file that the profiler wrote",
        )
    return opened, [*left_out(skipped), *beside]


def _public(one: Opened, redactor: Redactor) -> Opened:
    """Redact a trace and its path, before anything else uses them."""
    return replace(one, path=redactor.text(one.path), trace=redacted(one.trace, redactor))


def _main_process(opened: list[Opened]) -> tuple[list[Opened], list[str]]:
    """The process with most time in steps, if these are not ranks, and a note on the others."""
    if len(opened) <= 1 or same_run([o.trace.meta for o in opened]):
        return opened, []
    main = max(opened, key=lambda o: int(o.trace.marks.dur_ns.sum()))
    others = [o.path for o in opened if o is not main]
    return [main], [other_processes(others)]


def _with_rank_beside(trace: Trace, path: Path) -> Trace:
    """The trace with the rank that a file beside it names, if it does not record one itself."""
    rank = rank_beside(path) if trace.meta.rank == NULL else None
    if rank is None:
        return trace
    world_size = world_size_beside(path)
    meta = replace(trace.meta, rank=rank, world_size=NULL if world_size is None else world_size)
    return replace(trace, meta=meta)


def _open(path: Path, name: str, within: Path | None) -> list[Opened]:
    """Read all traces of a file or run directory.

    Args:
        path: The local file or folder.
        name: Its name in results.
        within: The folder in which it was found, see `open_input`.
    """
    if not is_folder(path):
        trace, format_name = read_trace(read_source(path, within))
        return [Opened(name, format_name, _with_rank_beside(trace, path))]
    if within is not None:
        check_within(within, path)
    is_run = is_file(path / "run.json")
    return [
        Opened(f"{name}/{r.name}" if is_run else name, r.format, r.trace) for r in read_folder(path)
    ]
