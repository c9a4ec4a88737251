"""Explain a run: reduce its files, compare its ranks, and assemble the result."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.answers.placement import placement_of
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import NoPlacementError
from stepwhy.engine.analysed import Analysed, analyse
from stepwhy.engine.merging import Parts, check_one_run, ranks_of_run
from stepwhy.engine.opening import counted, open_run, redacted_progress
from stepwhy.engine.privacy import redacted_errors, redactor_of
from stepwhy.engine.ranks import combine
from stepwhy.engine.reduced_files import has_reduced, part_of
from stepwhy.engine.reduction import Details, works_of
from stepwhy.read.inputs.places import resolve
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.trace.ranks import split_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from stepwhy.engine.analysed import Seen
    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.engine.reduction import Part, Work
    from stepwhy.result import Placement, Result

    Progress = Callable[[str, int, int], None]

# Slices of the traces that are kept until all ranks are known, about 100 MB. Of more, the traces
# are freed, and that of the rank that the result describes is read again.
_MOST_KEPT = 1_000_000
# Files whose traces `seen` is called with, whatever their size: a timeline of more is crowded.
_MOST_DRAWN = 16


class Ranks(msgspec.Struct, frozen=True):
    """The ranks of a run.

    Args:
        ranks: All ranks, each once.
        notes: What was left out.
        detail_of: All that is known of one of them.
    """

    ranks: list[Analysed]
    notes: list[str]
    detail_of: Details


def explain(
    names: Sequence[str],
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    predict: bool = True,
    seen: Seen | None = None,
    executor: Executor | None = None,
) -> Result:
    """Explain files, folders, globs, addresses or run directories as one run.

    Args:
        names: The inputs, as the user named them.
        progress: Called with (current activity, amount done, total amount); amounts are files, or
            bytes during a download, and the total is 0 if unknown.
        redact: Whether to replace secrets and private facts in the result, the messages of errors
            and the texts for `progress`; or the redactor to use.
        predict: Whether to predict what fixes would gain.
        seen: Called with each trace, its facts and its result; where other processes read the
            files, only with those of the rank that the result describes.
        executor: What reads the files; by default this process, or for many files several ones of
            this machine.

    Raises:
        InputError: No input can be explained, or several inputs are not ranks of one run.
        EngineError: The executor fails.
    """
    run = read_ranks(names, progress, redact=redact, predict=predict, seen=seen, executor=executor)
    return combine(run.ranks, run.notes, predict=predict, detail_of=run.detail_of)


def read_ranks(
    names: Sequence[str],
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    predict: bool = True,
    seen: Seen | None = None,
    executor: Executor | None = None,
) -> Ranks:
    """Read the ranks of a run, and reduce each to what their comparison needs.

    Args:
        names: The inputs, as the user named them.
        progress: As in `explain`.
        redact: Likewise.
        predict: Likewise; for several ranks, `combine` predicts.
        seen: Likewise.
        executor: Likewise.

    Raises:
        InputError: No input can be read, or several inputs are not ranks of one run.
        EngineError: The executor fails.
    """
    redactor = redactor_of(redact)
    with redacted_errors(redactor):
        places = resolve(names)
    works = works_of(places, redactor, predict=predict)
    public = redacted_progress(progress, redactor)
    if len(works) == 1:
        return Ranks(*ranks_of_run(_reduced_here(works, public, seen)), Details(works, seen))
    is_reduced = any(has_reduced(work.place) for work in works)
    # All ranks of small sets are drawn, which takes their traces.
    if not is_reduced and seen is not None and executor is None and len(works) <= _MOST_DRAWN:
        return Ranks(*ranks_of_run(_reduced_here(works, public, seen)), Details(works))
    from stepwhy.engine.mapping import processes_for, reduce_with  # noqa: PLC0415 - for many ranks

    with nullcontext(executor) if executor is not None else processes_for(works) as used:
        if used is not None:
            parts = reduce_with(used, works, public)
        elif not is_reduced:
            return Ranks(*ranks_of_run(_reduced_here(works, public, seen)), Details(works))
        else:
            parts = _reduced_here(works, public, None, keep=False)
    return Ranks(*ranks_of_run(parts), Details(works, seen))


def _reduced_here(
    works: Sequence[Work], progress: Progress | None, seen: Seen | None, *, keep: bool = True
) -> Parts:
    """Reduce all files one after the other in this process; `keep` their traces, if few."""
    parts, kept, is_run = Parts(), 0, True
    most_kept = _MOST_KEPT if keep else -1
    for done, work in enumerate(works):
        part = part_of(work, counted(progress, done, len(works)), seen, is_run=is_run)
        kept += sum(
            len(one.detail.trace.slices)
            for one in part.ranks
            if isinstance(one, Analysed) and one.detail is not None
        )
        parts.add(part if kept <= most_kept or len(works) == 1 else _freed(part))
        # The check takes all parts, so it is not made after each of them.
        if is_run and len(parts) & (len(parts) - 1) == 0:
            is_run = parts.may_be_run()
    return parts


def _freed(part: Part) -> Part:
    """A part without its traces."""
    ranks = (one.freed() if isinstance(one, Analysed) else one for one in part.ranks)
    return replace(part, ranks=tuple(ranks))


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
    opened = ranks_of(opened)
    analysed = []
    for done, one in enumerate(opened):
        if progress:
            progress(f"analysing {one.path}", done, len(opened))
        analysed.append(analyse(one, predict=predict and len(opened) == 1, seen=seen))
    return combine(analysed, skipped, predict=predict)


def ranks_of(opened: Sequence[Opened]) -> list[Opened]:
    """One trace per rank of a run, by number.

    Args:
        opened: The traces of its files.

    Raises:
        SeveralRunsError: They are no ranks of one run.
    """
    ranks = [replace(one, trace=rank) for one in opened for rank in split_ranks(one.trace)]
    check_one_run(ranks)
    return sorted(ranks, key=lambda one: one.meta.rank)


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
