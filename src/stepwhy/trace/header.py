"""What every written form of a trace says about it as a whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stepwhy.trace.health import Health, HealthCounter
from stepwhy.trace.model import Meta, Trace
from stepwhy.trace.schema import SCHEMA_VERSION, TABLES


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
        KeyError, TypeError, ValueError: The header is damaged.
    """
    fields = dict(header["meta"])
    fields["signals"] = frozenset(fields["signals"])
    fields["notes"] = tuple(fields["notes"])
    return Meta(**fields)


def health_of(header: dict[str, Any]) -> Health:
    """What was lost, repaired or guessed when the source was read.

    Raises:
        KeyError, TypeError, ValueError: The header is damaged.
    """
    health = Health(header["events_read"], header["events_kept"])
    for counter in (HealthCounter(**c) for c in header["health"]):
        health.count(
            counter.counter,
            counter.severity,
            counter.help,
            count=counter.count,
            dropped=counter.dropped,
        )
    return health


__all__ = ["header_of", "health_of", "meta_of"]
