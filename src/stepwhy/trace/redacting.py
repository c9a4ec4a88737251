"""Redacts the strings of a trace; no other module does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.columns.strings import strings_from, text_chunks
from stepwhy.base.redaction.prefilter import Prefilter
from stepwhy.base.redaction.redactor import users_in
from stepwhy.trace.health import Health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.base.redaction import Redactor
    from stepwhy.trace.model import Trace


def redacted(trace: Trace, redactor: Redactor) -> Trace:
    """Return a trace without secret or private text in its strings, notes and counters.

    The tables are shared with the argument. A distinct redactor keeps different texts different,
    so that groups by name stay the same.

    Args:
        trace: The trace.
        redactor: Replaces secrets, and the users whose home folders occur in the trace.
    """
    if not redactor.rules:
        return trace
    places = _candidates(trace.strings, redactor)
    users = {user for place in places for user in users_in(trace.strings[place])}
    if users:
        redactor = redactor.knowing(users)
        places = _candidates(trace.strings, redactor)
    meta = trace.meta
    # Every text is redacted, because any field of a file may contain a secret.
    facts = ((name, getattr(meta, name)) for name in meta.__struct_fields__)
    texts = {name: redactor.text(value) for name, value in facts if isinstance(value, str)}
    settings = tuple((name, redactor.text(value)) for name, value in meta.settings)
    meta = replace(meta, **texts, notes=tuple(redactor.texts(meta.notes)), settings=settings)
    return replace(
        trace,
        strings=_replaced(trace.strings, places, redactor),
        meta=meta,
        health=_health(trace.health, redactor),
    )


def _candidates(strings: Sequence[str], redactor: Redactor) -> list[int]:
    """Positions of strings that may contain a secret, by a fast search for hints."""
    prefilter = Prefilter(redactor.rules)
    return [
        place
        for first, last, data in text_chunks(strings)
        if (hints := prefilter.hints_in(data))
        for place, text in enumerate(strings[first:last], first)
        if _has_any(text.lower(), hints)
    ]


def _has_any(lowered: str, hints: list[str]) -> bool:
    return any(hint in lowered for hint in hints)


def _replaced(strings: Sequence[str], places: list[int], redactor: Redactor) -> Sequence[str]:
    """The strings, redacted at the given positions; the same object if nothing changes."""
    changes = {}
    for place in places:
        text = strings[place]
        clean = redactor.text(text)
        if clean != text:
            changes[place] = clean
    if not changes:
        return strings
    return strings_from(changes.get(place, text) for place, text in enumerate(strings))


def _health(health: Health, redactor: Redactor) -> Health:
    clean = Health(health.events_read, health.events_kept)
    for one in health.counters:
        help_text = redactor.text(one.help)
        clean.count(one.counter, one.severity, help_text, count=one.count, dropped=one.dropped)
    return clean
