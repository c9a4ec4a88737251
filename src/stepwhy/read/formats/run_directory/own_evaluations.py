"""Finds the evaluations that a loop of the program makes itself, without a library's `evaluate`.

In TensorFlow 2 and JAX, these are calls of compiled functions between those that train; in PyTorch,
what a model does between its `eval()` and `train()`. A program may do both for other purposes, such
as to act in an environment. So a name must say so, too: that of the function, or of what calls it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.patterns import regex
from stepwhy.read.formats.run_directory.event_log import Event
from stepwhy.read.formats.run_directory.step_log import training_signature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepwhy.read.formats.run_directory.step_log import Line

_EVALUATES = regex(
    r"(?:^|[_.(])(?:eval|evals|evaluate|evaluation|evaluator|val|valid|validate|validation|test"
    r"|testing|dev)(?:[_)]|$)"
    # Part of an update in reinforcement learning.
    r"(?!(?:actions?|states?|values?|log_?probs?|q|critics?|polic(?:y|ies))(?:[_)]|$))"
)
_COMPILED = frozenset({"trace", "compile"})
_NAME = "evaluation loop"
_ASYNCHRONOUS = frozenset({"jax"})
_KIND, _MODE = "evaluation", "evaluation-mode"


def with_own_evaluations(
    events: Sequence[Event], records: Sequence[Line], framework: str
) -> list[Event]:
    """The events of a log, with the evaluations that the program's own loops make.

    One by calls of compiled functions lasts from the first of them to the end of the last one
    before the program calls another function. Where calls return before the device has finished,
    it lasts until that call, without the wait for a batch. Those within an `evaluate` that was
    logged are left out.

    Args:
        events: The events, in any order.
        records: The steps of the process.
        framework: That of the process.
    """
    own_modes = [e for e in events if e.kind == _MODE and _evaluates("", e.source)]
    kept = [each for each in events if each.kind != _MODE]
    kept += [replace(each, kind=_KIND, name=_NAME) for each in own_modes]
    logged = sorted((each.end_ns, each.start_ns) for each in kept if each.kind == _KIND)

    def is_logged(own: Event) -> bool:
        after = bisect_right(logged, (own.start_ns, own.end_ns))
        return after < len(logged) and logged[after][1] < own.end_ns

    own = _by_calls(events, records, framework)
    return kept + [each for each in own if not is_logged(each)]


def _by_calls(events: Sequence[Event], records: Sequence[Line], framework: str) -> Iterator[Event]:
    """The evaluations by calls of compiled functions."""
    calls = sorted((r for r in records if r.kind in {"call", "gap"}), key=lambda r: r.start_ns)
    measuring = _measuring([call for call in calls if call.kind == "call"], events)
    for run, after in _runs(calls, measuring) if measuring else ():
        end_ns = run[-1].end_ns
        if framework in _ASYNCHRONOUS and after is not None:
            end_ns = max(end_ns, after.start_ns - (after.input_wait_ns or 0))
        source = measuring[run[0].signature]
        yield Event(_KIND, run[0].start_ns, end_ns, _NAME, source=source, count=len(run))


def _measuring(calls: Sequence[Line], events: Sequence[Event]) -> Mapping[int, str]:
    """The kinds of calls that evaluate, each with the line that makes them."""
    training = training_signature(calls)
    if training is None:
        return {}
    updating = {call.signature for call in calls if call.update} or {training}
    compiled = _by_signature(calls, [each for each in events if each.kind in _COMPILED])
    trainers = {_caller(compiled[each].source) for each in updating if each in compiled}
    return {
        signature: one.source
        for signature, one in compiled.items()
        # What calls the training as well is no evaluation, whatever its name says.
        if signature not in updating
        and _evaluates(one.name, "" if _caller(one.source) in trainers else one.source)
    }


def _evaluates(name: str, source: str) -> bool:
    """Whether a function evaluates, by its name or that of the function which calls it.

    Args:
        name: Its name.
        source: The line that calls it, 'train.py(41): evaluate'.
    """
    return any(_EVALUATES.search(each.lower()) is not None for each in (name, _caller(source)))


def _caller(source: str) -> str:
    return source.rpartition(": ")[2]


def _by_signature(calls: Sequence[Line], compiled: Sequence[Event]) -> dict[int, Event]:
    """What was compiled first in calls of each kind."""
    found: dict[int, Event] = {}
    waiting = sorted(compiled, key=lambda one: one.start_ns, reverse=True)
    for call in calls:
        while waiting and waiting[-1].start_ns < call.start_ns:
            waiting.pop()
        while waiting and waiting[-1].start_ns <= call.end_ns:
            found.setdefault(call.signature, waiting.pop())
    return found


def _runs(
    calls: Sequence[Line], measuring: Mapping[int, str]
) -> list[tuple[list[Line], Line | None]]:
    """Calls in a row that evaluate, each run with the record after it, if any."""
    found: list[tuple[list[Line], Line | None]] = []
    run: list[Line] = []
    for call in calls:
        if call.kind == "call" and call.signature in measuring:
            run.append(call)
            continue
        if run:
            found.append((run, call if call.kind == "call" else None))
        run = []
    return [*found, (run, None)] if run else found
