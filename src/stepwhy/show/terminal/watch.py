"""Sentences on what `stepwhy top --watch` has noticed and asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.show.metrics.watching import Asked, Noticed, State

_WATCHING = "Watching: no lasting change so far."
# What each state means, in the order in which the sentences come; of `{who}` and `{has}`.
_STATES: tuple[tuple[State, str], ...] = (
    ("asked", "{who} {is_} asked to trace some steps from step {step} on."),
    ("accepted", "{who} will trace some steps from step {step} on."),
    ("refused", "{who} cannot be traced on request: the messages of the run say why."),
    ("missed", "{who} {has} traced no step: the messages of the run say why."),
    ("silent", "{who} {has} not answered: its process may run an older version of stepwhy."),
)


def watch_sentence(noticed: Noticed | None) -> str:
    """What has changed, and which ranks trace it.

    Args:
        noticed: The latest change; None without one.
    """
    if noticed is None:
        return _WATCHING
    if noticed.failure:
        return f"{_change(noticed)} No rank could be asked to trace it: {noticed.failure}."
    return " ".join((_change(noticed), *_traced(noticed), *_others(noticed)))


def _change(noticed: Noticed) -> str:
    """What has changed."""
    late = "" if noticed.late is None else f"rank {noticed.late} is late"
    if noticed.before_ns is None or noticed.after_ns is None:
        return f"{late.capitalize()} for some time now."
    before, after = units.format_ns(noticed.before_ns), units.format_ns(noticed.after_ns)
    who = late or "the logs show no late rank"
    return f"The step time rose from {before} to {after}; {who}."


def _traced(noticed: Noticed) -> list[str]:
    """Which ranks have traced which steps."""
    traced = [one for one in noticed.asked if one.state == "traced"]
    if not traced:
        return []
    first = min(one.first_step for one in traced if one.first_step is not None)
    last = max(one.last_step for one in traced if one.last_step is not None)
    steps = f"steps {units.format_count(first + 1)} to {units.format_count(last + 1)}"
    alone = " without being asked" if noticed.step is None else ""
    return [f"{_names(traced)} {_has(traced)} traced {steps}{alone}."]


def _others(noticed: Noticed) -> list[str]:
    """What the other ranks have answered."""
    step = units.format_count((noticed.step or 0) + 1)
    found = []
    for state, text in _STATES:
        ranks = [one for one in noticed.asked if one.state == state]
        if ranks:
            is_ = "is" if len(ranks) == 1 else "are"
            found.append(text.format(who=_names(ranks), has=_has(ranks), is_=is_, step=step))
    return found


def _names(ranks: Sequence[Asked]) -> str:
    if ranks[0].rank is None:
        return "The process"
    numbers = [str(one.rank) for one in ranks]
    if len(numbers) == 1:
        return f"Rank {numbers[0]}"
    return f"Ranks {', '.join(numbers[:-1])} and {numbers[-1]}"


def _has(ranks: Sequence[Asked]) -> str:
    return "has" if len(ranks) == 1 else "have"
