"""A trace without secrets: the one place where strings of traces are redacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.columns.strings import pieces_of, strings_from
from stepwhy.redaction.prefilter import Prefilter
from stepwhy.redaction.redactor import users_in
from stepwhy.trace.health import Health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.redaction import Redactor
    from stepwhy.trace.model import Meta, Trace


def redacted(trace: Trace, redactor: Redactor) -> Trace:
    """A trace in whose strings, notes and counters nothing is secret or private.

    Tables are shared with the trace that was given; only texts change. Texts that differ still do
    if the redactor is a distinct one, so that what is grouped by name is grouped as before.

    Args:
        trace: The trace.
        redactor: Finds what to replace. Users whose home folders the trace names are known to it
            as well.
    """
    if not redactor.rules:
        return trace
    places = _candidates(trace.strings, redactor)
    users = {user for place in places for user in users_in(trace.strings[place])}
    if users:
        redactor = redactor.knowing(users)
        places = _candidates(trace.strings, redactor)
    return replace(
        trace,
        strings=_replaced(trace.strings, places, redactor),
        meta=_meta(trace.meta, redactor),
        health=_health(trace.health, redactor),
    )


def _candidates(strings: Sequence[str], redactor: Redactor) -> list[int]:
    """Places of strings with a hint of anything that is replaced."""
    prefilter = Prefilter(redactor.rules)
    return [
        place
        for first, last, data in pieces_of(strings)
        if (hints := prefilter.hints_in(data))
        for place, text in enumerate(strings[first:last], first)
        if _has_any(text.lower(), hints)
    ]


def _has_any(lowered: str, hints: list[str]) -> bool:
    return any(hint in lowered for hint in hints)


def _replaced(strings: Sequence[str], places: list[int], redactor: Redactor) -> Sequence[str]:
    """The strings, those at some places redacted; the same object where nothing changes."""
    changes = {}
    for place in places:
        text = strings[place]
        clean = redactor.text(text)
        if clean != text:
            changes[place] = clean
    if not changes:
        return strings
    return strings_from(changes.get(place, text) for place, text in enumerate(strings))


def _meta(meta: Meta, redactor: Redactor) -> Meta:
    """Facts in which every text is redacted: a stranger's file may say anything anywhere."""
    facts = ((name, getattr(meta, name)) for name in meta.__struct_fields__)
    texts = {name: redactor.text(value) for name, value in facts if isinstance(value, str)}
    return replace(meta, **texts, notes=tuple(redactor.texts(meta.notes)))


def _health(health: Health, redactor: Redactor) -> Health:
    clean = Health(health.events_read, health.events_kept)
    for one in health.counters:
        help_text = redactor.text(one.help)
        clean.count(one.counter, one.severity, help_text, count=one.count, dropped=one.dropped)
    return clean


__all__ = ["redacted"]
