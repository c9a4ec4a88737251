"""The header of stored and exported traces: version, facts about the run, health counters."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from stepwhy.base.columns.strings import strings_from
from stepwhy.trace.health import Health, HealthCounter
from stepwhy.trace.model import Meta, Trace
from stepwhy.trace.schema import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence


def header_of(trace: Trace) -> dict[str, Any]:
    """Version, tables, facts about the run and counters, ready to be written as JSON."""
    meta = asdict(trace.meta)
    meta["signals"] = sorted(trace.meta.signals)
    return {
        "version": SCHEMA_VERSION,
        "tables": list(TABLES),
        "meta": meta,
        "events_read": trace.health.events_read,
        "events_kept": trace.health.events_kept,
        "health": [asdict(c) for c in trace.health.counters],
    }


def meta_of(header: dict[str, Any]) -> Meta:
    """The facts about the run.

    Raises:
        KeyError, ValueError: The header is damaged.
    """
    meta = msgspec.convert(header["meta"], Meta)
    _check_fit(meta.rank, meta.world_size, *chain(*meta.stages))
    return meta


def health_of(header: dict[str, Any]) -> Health:
    """The health counters of reading the source.

    Raises:
        KeyError, ValueError: The header is damaged.
    """
    counts = header["events_read"], header["events_kept"]
    health = Health(*msgspec.convert(counts, tuple[int, int]))
    counters = msgspec.convert(header["health"], list[HealthCounter])
    _check_fit(health.events_read, health.events_kept, *(c.count for c in counters))
    for counter in counters:
        health.count(
            counter.counter,
            counter.severity,
            counter.help,
            count=counter.count,
            dropped=counter.dropped,
        )
    return health


def _check_fit(*numbers: int) -> None:
    if any(abs(number) >= 1 << 63 for number in numbers):
        raise ValueError("a number in its header does not fit into 64 bits")


def strings_of(texts: Any) -> Sequence[str]:
    """The interned strings.

    Raises:
        ValueError: One of them is not a string.
    """
    return strings_from(msgspec.convert(texts, list[str]))


def in_short(error: Exception) -> str:
    """The message of an error in one short, printable line, although it may quote the file."""
    text = " ".join(str(error).split())
    return text[:200] if text.isprintable() else type(error).__name__
