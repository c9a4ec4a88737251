"""Calls of `Session.run` in the recorded steps, and which of them could be one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.session_parts import RUN
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL, Kind, Phase, Role, among
from stepwhy.trace.kinds import NEXT_RUN

_ONE = regex(r"1(?:x\d+)*|")
_WRITES = regex(r"Assign.*|Scatter.*|ResourceScatter.*")
_SHOWN = 3
_LAST = np.iinfo(np.int32).max  # a row after all calls


class SessionRun(msgspec.Struct, frozen=True):
    """One call of `Session.run` in a recorded step.

    Args:
        slice: Row of the call.
        step: Index of its step.
        dur_ns: Its duration.
        rows: The operations that it ran; (any,).
        updates: Whether an optimizer updates variables in it, or what it derives is written.
        derives: Whether it computes gradients.
        reads: Whether it takes input from a queue or a dataset.
        fed: Fingerprint by name of the fed tensor; NULL if it is unknown.
        shapes: Name and shape of each fed value, and of each fetched one.
    """

    slice: int
    step: int
    dur_ns: int
    rows: NDArray[np.int32]
    updates: bool
    derives: bool
    reads: bool
    fed: dict[str, int]
    shapes: tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]

    def gets_one_example(self) -> bool:
        """Whether it only computes, with arrays of one row, and returns none that it could get."""
        sizes, results = ({shape for _, shape in values} for values in self.shapes)
        is_single = bool(sizes) and all(_ONE.fullmatch(size) for size in sizes)
        return is_single and not (self.updates or self.derives or self.reads or sizes & results)

    def only_measures(self) -> bool:
        """Whether it turns several examples into numbers, and changes nothing."""
        fed, fetched = ({shape for _, shape in values} for values in self.shapes)
        has_examples = any(not _ONE.fullmatch(size) for size in fed)
        return has_examples and fetched == {""} and not (self.updates or self.derives)


def session_runs(facts: Facts) -> Iterator[SessionRun]:
    """The calls in the steady steps, in order.

    Args:
        facts: Facts of the run.
    """
    trace, slices = facts.trace, facts.trace.slices
    marks = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    marks = marks[np.isin(slices.name[marks], trace.strings_where({RUN})) & facts.is_steady[marks]]
    marks = marks[np.argsort(slices.start_ns[marks], kind="stable")]
    rows, fed = steady_work(facts), _fed(facts, 1)
    shapes = [_shapes(facts, which) for which in (1, 0)]
    inputs = facts.slices(Kind.INPUT, steady=True)
    starts = slices.start_ns[marks]
    # The slice of a step's first call covers the whole step.
    until = np.minimum(trace.ends(marks), np.append(starts[1:], np.iinfo(np.int64).max))
    of_row = np.searchsorted(starts, slices.start_ns[rows], side="right") - 1
    of_input = np.searchsorted(starts, slices.start_ns[inputs], side="right") - 1
    for place, mark in enumerate(marks.tolist()):
        own = rows[of_row == place]
        derives = bool((facts.phases[own] == Phase.BACKWARD).any())
        yield SessionRun(
            mark,
            int(np.searchsorted(facts.steps.starts, starts[place], side="right")),
            int(until[place] - starts[place]),
            own[slices.scope[own] != NULL],
            bool(among(facts.phases[own], (Phase.OPTIMIZER,)).any())
            or (derives and _writes(facts, own)),
            derives,
            bool((of_input == place).any()),
            fed[mark],
            (frozenset(shapes[0][mark]), frozenset(shapes[1][mark])),
        )


def training_runs(facts: Facts, runs: Sequence[SessionRun]) -> dict[int, list[SessionRun]]:
    """The calls that train in each step, and the one that begins the next step; by its index.

    That one stands for a call of the same operations that was not recorded, after all others.

    Args:
        facts: Facts of the run.
        runs: All calls.
    """
    found = defaultdict[int, list[SessionRun]](list)
    for run in runs:
        if run.updates:
            found[run.step].append(run)
    for step, fed in _fed_next(facts).items():
        if found[step]:
            found[step].append(replace(found[step][0], slice=_LAST, fed=fed))
    return found


def _fed_next(facts: Facts) -> dict[int, dict[str, int]]:
    """Fingerprints by name of what the call after a step is fed with; by the step's index."""
    trace, fed = facts.trace, _fed(facts, 2)
    rows = trace.rows(Kind.PROFILER, role=Role.HOST_THREAD)
    rows = rows[np.isin(trace.slices.name[rows], trace.strings_where({NEXT_RUN}))]
    steps = np.searchsorted(facts.steps.starts, trace.slices.start_ns[rows], side="right")
    return {step: fed[row] for step, row in zip(steps.tolist(), rows.tolist(), strict=True)}


def _writes(facts: Facts, rows: NDArray[np.int32]) -> bool:
    """Whether some operations write variables."""
    names = np.unique(facts.trace.slices.name[rows])
    return any(_WRITES.fullmatch(facts.trace.string(int(name))) for name in names)


def _fed(facts: Facts, which: int) -> defaultdict[int, dict[str, int]]:
    """Fingerprints of the fed values by call, and then by name."""
    table, found = facts.trace.session_values, defaultdict[int, dict[str, int]](dict)
    for row in np.flatnonzero(table.fed == which):
        name = facts.trace.string(int(table.name[row]))
        found[int(table.slice[row])][name] = int(table.fingerprint[row])
    return found


def _shapes(facts: Facts, fed: int) -> defaultdict[int, set[tuple[str, str]]]:
    """Name and shape of the values that calls are fed with, or return; by call."""
    table, found = facts.trace.session_values, defaultdict[int, set[tuple[str, str]]](set)
    text = facts.trace.string
    for row in np.flatnonzero(table.fed == fed):
        about = text(int(table.name[row])), text(int(table.shape[row]))
        found[int(table.slice[row])].add(about)
    return found


def settings_of(runs: Sequence[SessionRun]) -> frozenset[str]:
    """Fed tensors that get one value in all calls that feed them, in two or more steps.

    Args:
        runs: All calls.
    """
    marks, steps = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for run in runs:
        for name, mark in run.fed.items():
            marks[name].add(mark)
            steps[name].add(run.step)
    return frozenset(name for name, found in marks.items() if len(found) < 2 <= len(steps[name]))


def could_be_one(
    facts: Facts, one: SessionRun, other: SessionRun, settings: frozenset[str]
) -> bool:
    """Whether two calls compute with the same values, so that one call can fetch the results.

    What is fed only to the later call may be what the earlier one returned, unless it never
    changes. Without a value for it, a placeholder fails, but one with a default computes something
    else.

    Args:
        facts: Facts of the run.
        one: A call.
        other: Another call.
        settings: Fed tensors whose values never change, see `settings_of`.
    """
    first, second = sorted((one, other), key=lambda r: r.slice)
    differ = {name for name, mark in second.fed.items() if first.fed.get(name) != mark}
    if differ & first.fed.keys() or not differ <= settings:
        return False
    return all(_must_be_fed(facts, name) for name in first.fed.keys() ^ second.fed.keys())


def _must_be_fed(facts: Facts, tensor: str) -> bool:
    nodes = facts.trace.nodes
    named = np.isin(nodes.name, facts.trace.strings_where({tensor.partition(":")[0]}))
    ops = {facts.trace.string(int(op)) for op in nodes.op[named]}
    return ops == {"Placeholder"}


def place_of(facts: Facts, run: SessionRun) -> str:
    """Line of a call, and what it fetches.

    Args:
        facts: Facts of the run.
        run: The call.
    """
    trace, table = facts.trace, facts.trace.session_values
    own = (table.slice == run.slice) & (table.fed == 0)
    fetched = ", ".join(trace.string(int(name)) for name in table.name[own][:_SHOWN])
    source = int(trace.slices.source[run.slice])
    places = ("" if source == NULL else trace.string(source), fetched and f"fetches {fetched}")
    return ", ".join(filter(None, places))
