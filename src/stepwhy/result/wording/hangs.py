"""Collectives that hang, and calls that do not match, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result.hangs import At, Hang, Mismatch, Variant

_ALL_RANKS = "default_pg"  # what PyTorch calls the group of all ranks, which needs no name
_NO_NAME = frozenset({"", "0"})
_LINE = regex(r"^(?P<file>.*)\((?P<line>\d+)\)(?:: .*)?$")
_MOST_NAMED = 8


def hang_sentence(hang: Hang) -> str:
    """Where the ranks stand that a collective waits for, and who waits."""
    if hang.sequence is None:
        return _standstill_sentence(hang)
    collective = collective_name(hang)
    if hang.missing:
        return f"{_missing(hang.missing, collective)}; {_waiters(hang)} in it."
    at = _at(hang.call.line)
    if hang.unrecorded:
        absent = ranks_text(hang.unrecorded)
        left, has = ("leaves", "has") if len(hang.unrecorded) == 1 else ("leave", "have")
        inside = f"{_first(ranks_text(hang.waiting))} {_wait(hang.waiting)} in {collective}{at}"
        return f"{inside}; {absent} {left} no record, and {has} perhaps not entered it."
    entered = "All ranks that are recorded have" if len(hang.waiting) > 1 else "The rank has"
    return f"{entered} entered {collective}{at}, and it has not ended."


def _standstill_sentence(hang: Hang) -> str:
    """Where ranks stand whose collectives are not recorded."""
    inside = f"in {one_line(hang.call.operation)}" if hang.call.operation else ""
    place = f"{inside}{_at(hang.call.line)}".strip() or "in other code"
    if not hang.missing:
        who = _first(ranks_text(hang.waiting))
        return f"{who} {_wait(hang.waiting)} {place}; which one the others wait for is not known."
    first, *others = hang.missing
    too = f", {ranks_text([at.rank for at in others])} elsewhere" if others else ""
    where = f"{_in(first.inside)}{_at(first.line)}".strip() or "in other code"
    return f"{_first(ranks_text([first.rank]))} is {where}{too}; {_waiters(hang)} {place}."


def _in(function: str) -> str:
    return f"in {one_line(function)}" if function else ""


def mismatch_sentence(mismatch: Mismatch) -> str:
    """What the fewest ranks called, and what the others did."""
    one, other = mismatch.variants[0], mismatch.variants[-1]
    collective, at = collective_name(mismatch, one.call.operation), _at(one.call.line)
    some, others = _first(ranks_text(one.ranks)), ranks_text(other.ranks)
    if mismatch.what == "operation":
        return (
            f"{some} called {collective}{at}, where {others} called "
            f"{one_line(other.call.operation)}{_at(other.call.line)}."
        )
    return (
        f"{some} {_give(one.ranks)} {given(one, mismatch.what)} to {collective}{at}, but {others} "
        f"{_give(other.ranks)} {given(other, mismatch.what)}{_at(other.call.line)}."
    )


def collective_name(found: Hang | Mismatch, operation: str = "") -> str:
    """'all_reduce 31', with its group unless that is the group of all ranks.

    Args:
        found: The collective.
        operation: What it is called; by default as the hang says.
    """
    name = operation or (found.call.operation if hasattr(found, "call") else "")
    if found.sequence is None:
        return one_line(name)
    group = group_name(found)
    return one_line(f"{name} {found.sequence}" + (f" of group {group}" if group else ""))


def group_name(found: Hang | Mismatch) -> str:
    """What the program calls the group of a collective, or its name; '' for all ranks."""
    if found.description == _ALL_RANKS or (not found.description and found.group.name in _NO_NAME):
        return ""
    is_named = found.description not in {"", "undefined"}
    return one_line(found.description if is_named else found.group.name)


def given(variant: Variant, what: str) -> str:
    """What ranks give to a collective: how many elements, or of which types."""
    call = variant.call
    if what == "types":
        return one_line(call.types)
    return "1 element" if call.elements == 1 else f"{call.elements:,} elements"


def short_line(line: str) -> str:
    """'train.py:41' of 'train.py(41): step'."""
    found = _LINE.match(line)
    return one_line(f"{found['file']}:{found['line']}" if found else line)


def ranks_text(ranks: Sequence[int | None]) -> str:
    """'rank 1', 'ranks 1 and 3', '8 ranks'; 'this rank' if its number is unknown."""
    if list(ranks) == [None]:
        return "this rank"
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _MOST_NAMED:
        return f"{len(ranks):,} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _missing(missing: Sequence[At], collective: str) -> str:
    """Who has not entered a collective, and where they stand."""
    first = missing[0]
    if len(missing) == 1:
        place = _standing(first)
        return f"{_first(ranks_text([first.rank]))} {place}has not entered {collective}"
    ranks = _first(ranks_text([at.rank for at in missing]))
    place = f" (rank {first.rank} {_standing(first).removesuffix(' and ')})" if first.line else ""
    return f"{ranks} have not entered {collective}{place}"


def _standing(at: At) -> str:
    """Where a rank stands, a clause that ends with 'and '; '' if unknown."""
    if at.inside:
        return f"waits in {one_line(at.inside)}{_at(at.line)} and "
    if not at.line:
        return ""
    if at.is_now:
        return f"is{_at(at.line)} and "
    return f"was last seen{_at(at.line)} and "


def _waiters(hang: Hang) -> str:
    count = len(hang.waiting)
    one = ranks_text(hang.waiting)
    if count == 1:
        return f"{one} waits"
    return f"{count:,} others wait"


def _give(ranks: Sequence[int | None]) -> str:
    return "gives" if len(ranks) == 1 else "give"


def _wait(ranks: Sequence[int | None]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _at(line: str) -> str:
    return f" at {short_line(line)}" if line else ""


def _first(text: str) -> str:
    """The text at the beginning of a sentence."""
    return text[:1].upper() + text[1:]
