"""Count the steps of a log line by line, with the result that `explain` has for the whole log.

A line of kind 'step' is a step. Otherwise a step lasts from one call (of `Session.run`, or of a
compiled function) with the training signature to the next. Which signature that is shows after some
calls, so each one is counted, and the choice is made when the numbers are read.
"""

from __future__ import annotations

import json
from collections import deque

from stepwhy.show.metrics.model import DurationCounter
from stepwhy.show.metrics.ranks import RecentStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeGuard

_EXPLICIT = ("explicit", "told")
_CALLS = ("run", "call")
# As `stepwhy.read.formats.run_directory.step_log` chooses the training signature.
_FEWEST_RUNS = 3
_LEAST_SHARE = 0.05
_LEAST_FREQUENCY = 0.5
_LONGEST_STEP_NS = 24 * 3600 * 10**9
# Steps that a job which is watched is judged by.
_RECENT = 20
# Without the options and the search for other encodings of `json.loads`, which takes as long.
_decoded = json.JSONDecoder().decode
# A program makes a few; one that makes a new one in every step is not followed forever.
_MOST_SIGNATURES = 1024


class Steps:
    """What is known of the steps so far.

    Attributes:
        count: Number of steps.
        unprofiled: Wall times of those without a profiler.
        timed: Number of these.
        timed_ns: Sum of these.
        input_wait_ns: Time in which these waited for input.
        observed_ns: Wall time of those of them whose waits were observed.
        waits: Number of waits that were seen.
        total_ns: Wall time of all steps.
        last_end_ns: End of the last step; 0 without any.
        recent: The last ones of those without a profiler, the oldest first.
    """

    __slots__ = (
        "count", "input_wait_ns", "last_end_ns", "observed_ns", "recent", "timed", "timed_ns",
        "total_ns", "unprofiled", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = self.input_wait_ns = self.observed_ns = self.waits = 0
        self.total_ns = self.last_end_ns = self.timed = self.timed_ns = 0
        self.unprofiled = DurationCounter()
        self.recent: deque[RecentStep] = deque(maxlen=_RECENT)

    def add(
        self,
        start_ns: int,
        end_ns: int,
        *,
        profiled: bool,
        light: bool,
        wait_ns: int | None,
        cpu_ns: int | None = None,
    ) -> None:
        """Count a step, unless its length is impossible.

        Args:
            start_ns: Its start.
            end_ns: Its end.
            profiled: Whether a profiler ran.
            light: Whether it was only timed, without a look at its waits.
            wait_ns: Time in which it waited for input; None if no wait was seen.
            cpu_ns: CPU time of the driving thread; None if unknown.
        """
        duration_ns = max(end_ns - start_ns, 0)
        if duration_ns > _LONGEST_STEP_NS:
            return
        self.count += 1
        self.total_ns += duration_ns
        self.last_end_ns = max(end_ns, self.last_end_ns)
        if profiled:
            return
        self.timed += 1
        self.timed_ns += duration_ns
        self.unprofiled.add(duration_ns)
        self.recent.append(RecentStep(duration_ns, None if light else wait_ns, cpu_ns))
        if not light:
            self.observed_ns += duration_ns
            self.input_wait_ns += min(wait_ns or 0, duration_ns)
            self.waits += wait_ns is not None


class StepMeter:
    """Counts the steps of one log."""

    def __init__(self) -> None:
        self._noted = Steps()
        self._calls = {kind: _Calls(is_since=kind == "call") for kind in _CALLS}
        self._explicit_ns: int | None = None
        self._profiled_run = False

    def add(self, lines: Iterable[bytes]) -> None:
        """Count the next lines of the log; damaged ones are skipped."""
        for line in lines:
            record = _record(line)
            if record is not None:
                self._add(record)

    def steps(self) -> Steps:
        """The steps so far."""
        if self._explicit_ns is not None:
            return self._noted
        runs, calls = (self._calls[kind].steps() for kind in _CALLS)
        noted = calls if calls.count and self._noted.count < _FEWEST_RUNS else self._noted
        return max(noted, runs, key=lambda steps: steps.total_ns)

    def _add(self, record: dict[str, Any]) -> None:
        kind = record["kind"]
        if kind in _EXPLICIT and self._explicit_ns is None:
            self._explicit_ns, self._noted = record["start_ns"], Steps()
        elif kind == "step" and record["start_ns"] >= (self._explicit_ns or 0):
            self._add_noted(record)
        elif kind in _CALLS:
            # In an explicit step, a profiler may trace a run.
            self._profiled_run |= record["profiled"]
            self._calls[kind].add(record)

    def _add_noted(self, record: dict[str, Any]) -> None:
        is_explicit = self._explicit_ns is not None
        self._noted.add(
            record["start_ns"],
            record["end_ns"],
            profiled=record["profiled"] or (is_explicit and self._profiled_run),
            light=record["light"],
            wait_ns=record["input_wait_ns"],
            cpu_ns=record["cpu_ns"],
        )
        self._profiled_run = False


class _Calls:
    """The calls of one kind, by their signature.

    Args:
        is_since: Whether their CPU time is that since the last call that marks a step.
    """

    def __init__(self, *, is_since: bool) -> None:
        self._is_since = is_since
        self._signatures: dict[int, _Signature] = {}
        self._was_profiled = False
        # Over all calls so far.
        self._waited_ns = self._waits = self._light = self._profiled = 0

    def add(self, record: dict[str, Any]) -> None:
        """Count the next call."""
        profiled_before = self._profiled
        self._profiled += record["profiled"]
        self._light += record["light"]
        if record["input_wait_ns"] is not None:
            self._waited_ns += record["input_wait_ns"]
            self._waits += 1
        known = self._signatures.get(record["signature"])
        if known is None and len(self._signatures) < _MOST_SIGNATURES:
            known = self._signatures[record["signature"]] = _Signature()
        if known is not None:
            known.runs += 1
            known.time_ns += max(record["end_ns"] - record["start_ns"], 0)
            known.opened += record["profiled"] and not self._was_profiled
            here = (record["start_ns"], self._waited_ns, self._waits, self._light)
            known.begin(here, profiled_before, record["cpu_ns"] if self._is_since else None)
        self._was_profiled = record["profiled"]

    def steps(self) -> Steps:
        """The steps that the calls of the training signature begin."""
        whole_ns = sum(one.time_ns for one in self._signatures.values())
        heavy = [
            one
            for one in self._signatures.values()
            if one.runs >= _FEWEST_RUNS and one.time_ns >= _LEAST_SHARE * whole_ns
        ]
        most = max((one.runs for one in heavy), default=0)
        frequent = [one for one in heavy if one.runs >= _LEAST_FREQUENCY * most]
        chosen = max(frequent, key=lambda one: (one.opened, one.time_ns), default=None)
        return Steps() if chosen is None else chosen.steps


class _Signature:
    """The calls of one signature, and the steps from one of them to the next.

    Attributes:
        runs: Number of calls.
        time_ns: Time inside of them.
        opened: How often a profiler was started with one.
        steps: The steps.
        profiled: Number of profiled calls of all signatures before the last call.
    """

    __slots__ = ("_last", "opened", "profiled", "runs", "steps", "time_ns")

    def __init__(self) -> None:
        self.runs = self.time_ns = self.opened = self.profiled = 0
        self.steps = Steps()
        self._last: tuple[int, int, int, int] | None = None

    def begin(
        self, here: tuple[int, int, int, int], profiled: int, cpu_ns: int | None = None
    ) -> None:
        """End the step before a call, and begin the next one.

        Args:
            here: Start of the call, and of all calls up to this one the waiting time, the number
                of waits, and the number of light ones: the wait before a call belongs to the step
                before it.
            profiled: Number of profiled calls before it.
            cpu_ns: CPU time of the driving thread in the step that ends; None if unknown.
        """
        last, self._last = self._last, here
        was_profiled, self.profiled = profiled > self.profiled, profiled
        if last is None:
            return
        start_ns, waited_ns, waits, light = (new - old for new, old in zip(here, last, strict=True))
        self.steps.add(
            last[0],
            last[0] + start_ns,
            profiled=was_profiled,
            light=light > 0,
            wait_ns=waited_ns if waits else None,
            cpu_ns=cpu_ns,
        )


def _record(line: bytes) -> dict[str, Any] | None:
    """The members of a line that count; None for a damaged line."""
    try:
        read = _decoded(line.decode())
        wait_ns, cpu_ns = read.get("input_wait_ns"), read.get("cpu_ns")
        record = {
            "kind": str(read["kind"]),
            "start_ns": read["start_ns"],
            "end_ns": read["end_ns"],
            "signature": read.get("signature", 0),
            "profiled": bool(read.get("profiled")),
            "light": bool(read.get("light")),
            "input_wait_ns": wait_ns if is_amount(wait_ns) else None,
            "cpu_ns": cpu_ns if is_amount(cpu_ns) else None,
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    times = is_amount(record["start_ns"]) and is_amount(record["end_ns"])
    return record if times and isinstance(record["signature"], int) else None


def members(line: bytes) -> dict[str, Any]:
    """A line of a log, or a file, that is one JSON object; {} if it is damaged."""
    try:
        read = _decoded(line.decode())
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def is_amount(value: object) -> TypeGuard[int]:
    """Whether a logged value is a time, duration or size; the file may contain anything."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
