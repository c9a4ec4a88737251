"""What slight damage changed: rows that are lost or new, what is said of it, and the verdict."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from fuzz.slight.damages import Loses
from fuzz.ways import differences, taken, ways_of
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import StepwhyError, UnknownFormatError
from stepwhy.base.patterns import regex
from stepwhy.engine.assemble import assemble
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz.slight.damages import Damage
    from stepwhy.trace import Trace

# Slices whose extent depends on one record: ranges around it, waits beside it.
_MOST_CHANGED = 6
# By design where a program is killed while it writes.
_OF_A_TORN_END = frozenset({"record-torn", "unclosed-list", "json-truncated"})
# Refused when anything was changed: what stepwhy wrote, and tables whose index is at the end.
_CHECKED = regex(r"stored trace|exported trace|several Parquet files|a Parquet file")


class Reading(NamedTuple):
    """What a file is read as: a trace, or an error.

    Args:
        trace: The trace.
        error: Why there is none.
    """

    trace: Trace | None
    error: StepwhyError | None = None


class Judged(NamedTuple):
    """What some damage did to a file.

    Args:
        outcome: 'same', 'lost N and said so', 'refused'; for people.
        faults: What should not be.
    """

    outcome: str
    faults: list[str]


def reading(data: bytes, name: str) -> Reading:
    """Read a file.

    Args:
        data: The file.
        name: Its name.
    """
    try:
        return Reading(read_trace(Source(data, name))[0])
    except StepwhyError as error:
        return Reading(None, error)


class Whole:
    """A whole file, with which its damaged versions are compared.

    Args:
        data: The file.
        name: Its name.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.trace = read_trace(Source(data, name))[0]
        self._rows = rows_of(self.trace)
        self._verdict: tuple[str, float] | None = None

    def judge(self, damage: Damage) -> Judged:
        """What some damage did.

        Args:
            damage: The damage, with the damaged file.
        """
        trace, error = reading(damage.data, self.name)
        if trace is None:
            assert error is not None  # noqa: S101
            return Judged(f"refused: {error.slug}", list(self._of_refusal(damage, error)))
        rows = rows_of(trace)
        lost, new = self._rows - rows, rows - self._rows
        faults = list(self._of_trace(damage, trace, lost.total(), new.total()))
        faults += other_ways(Source(damage.data, self.name), trace)
        outcome = f"lost {lost.total()} of {self._rows.total()}" if lost or new else "same"
        return Judged(outcome + said(self.trace, trace), faults)

    def _of_refusal(self, damage: Damage, error: StepwhyError) -> Iterator[str]:
        if isinstance(error, UnknownFormatError):
            yield f"not recognised: {error}"
        elif damage.loses is not Loses.END and not _CHECKED.search(str(error)):
            yield f"refused: {error}"

    def _of_trace(self, damage: Damage, trace: Trace, lost: int, new: int) -> Iterator[str]:
        if trace.meta.format != self.trace.meta.format:
            yield f"read as {trace.meta.format}"
        if trace.health.events_read != trace.health.events_kept + trace.health.dropped:
            yield "does not count all events"
        found = next(differences(self.trace, trace, health=False), "")
        told = said(self.trace, trace)
        if found and not told and (lost != new or damage.loses is not Loses.RECORD):
            yield f"says nothing of {found}"
        if damage.loses is Loses.NOTHING and found and not is_merged(damage, told):
            yield f"differs: {found}; lost {lost}, new {new}"
        if damage.name == "two in one file" and not told:
            yield "does not name the second"
        if damage.loses is Loses.RECORD:
            if max(lost, new) > _MOST_CHANGED:
                yield f"lost {lost}, new {new}"
            if replace(trace.meta, notes=()) != replace(self.trace.meta, notes=()):
                yield f"meta: {trace.meta} and {self.trace.meta}"
        if found and not told:
            yield from self._of_verdict(trace)

    def _of_verdict(self, trace: Trace) -> Iterator[str]:
        """Whether the verdict is another one."""
        if self._verdict is None:
            self._verdict = verdict_of(self.trace, self.name)
        verdict = verdict_of(trace, self.name)
        if verdict[0] != self._verdict[0]:
            yield f"verdict: {verdict}, not {self._verdict}"


def is_merged(damage: Damage, told: str) -> bool:
    """Whether two messages of a format that can be joined were read as one, and that is said."""
    return damage.name == "two in one file" and bool(told)


def verdict_of(trace: Trace, name: str) -> tuple[str, float]:
    """What bounds a trace, and how sure that is.

    Args:
        trace: The trace.
        name: Name of its file.
    """
    counted = replace(trace, health=deepcopy(trace.health))  # what is found out is counted, too
    verdict = assemble(Facts(counted), name, trace.meta.format).verdict
    return verdict.bound_by, round(verdict.confidence, 2)


def new_counters(before: Trace, after: Trace) -> list[Any]:
    """Counters of health that are new or higher, except for what is by design in whole files."""
    old = {c.counter: c.count for c in before.health.counters}
    return [
        c
        for c in after.health.counters
        if c.counter in _OF_A_TORN_END or (c.severity != "info" and c.count > old.get(c.counter, 0))
    ]


def said(before: Trace, after: Trace) -> str:
    """Names and numbers of the new counters, '' without any."""
    return "".join(f", {c.counter} {c.count}" for c in new_counters(before, after))


def rows_of(trace: Trace) -> Counter[tuple[Any, ...]]:
    """What slices are, whatever the numbers of their tracks and names."""
    slices, tracks, devices = trace.slices, trace.tracks, trace.devices
    strings = [*trace.strings, ""]  # of NULL, which is -1
    device_names = [*(strings[n] for n in devices.name.tolist()), ""]
    columns = (tracks.name, tracks.process, tracks.thread, tracks.device)
    labels = [
        # Lanes of no process are numbered as they are needed.
        (strings[name], process, process if process == NULL else thread, device_names[device])
        for name, process, thread, device in zip(*(c.tolist() for c in columns), strict=True)
    ]
    # Laid end to end, iterations begin later or earlier when another one is damaged.
    start_ns = slices.start_ns if trace.meta.format != "megascan" else np.zeros(len(slices), int)
    return Counter(
        (*times, kind, strings[name], labels[track])
        for *times, kind, name, track in zip(
            start_ns.tolist(),
            slices.dur_ns.tolist(),
            slices.kind.tolist(),
            slices.name.tolist(),
            slices.track.tolist(),
            strict=True,
        )
    )


def other_ways(source: Source, trace: Trace) -> list[str]:
    """How other ways to read a file differ.

    Args:
        source: The file.
        trace: What was read from it.
    """
    found = []
    for way in ways_of(source):
        try:
            with taken(way):
                other = read_trace(Source(source.data, source.origin))[0]
        except StepwhyError as error:
            found.append(f"{way.importer} {way.name}: {error}")
            continue
        found += [f"{way.importer} {way.name}: {d}" for d in differences(trace, other)][:2]
    return found
