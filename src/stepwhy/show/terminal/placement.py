"""The placement of a graph in the terminal."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line, visible
from stepwhy.base.units import format_count
from stepwhy.show import placement as words
from stepwhy.show.console import Text
from stepwhy.show.terminal.measurement import print_parts, sentence_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import RenderableType

    from stepwhy.result import (
        PlacedOp,
        PlacedScope,
        Placement,
        PlacementChange,
        PlacementDifference,
        PlacementResult,
    )
    from stepwhy.show.console import Console

# Scopes and operations that are listed by default; with a filter, all operations are listed.
_MOST_SCOPES, _DEPTH, _MOST_OPS = 24, 2, 12
_MOST_CHANGES = 40


def render_placement(
    result: PlacementResult, *, every: bool = False, console: Console | None = None
) -> None:
    """Print where operations ran, or what changed between two runs.

    Args:
        result: What to report.
        every: List every operation instead of scopes and misplaced operations.
        console: Console to print to; None for standard output.
    """
    if result.difference is not None:
        print_parts(list(_difference(result.difference)), console)
    elif result.placement is not None:
        print_parts(list(_placement(result.placement, every=every)), console)


def _placement(placement: Placement, *, every: bool) -> Iterator[RenderableType]:
    if not placement.scopes:
        yield Text("No operation matches.")
        return
    whole = placement.scopes[0]
    yield from sentence_line(words.sentence(whole), "red" if whole.elsewhere else "green")
    if every:
        yield from _groups(placement.ops, len(placement.ops))
        return
    marks = words.letters(whole)
    yield Text("\nDevices", "bold")
    for device, mark in marks.items():
        yield Text(f"  {mark}  {one_line(device)}  {format_count(whole.devices[device])}")
    yield Text("\nScopes", "bold")
    yield Padding(_scopes(placement.scopes, marks), (0, 0, 0, 2))
    elsewhere = [op for op in placement.ops if op.placed in ("moved", "overruled")]
    if elsewhere:
        yield Text("\nNot on the requested device", "bold")
        yield from _groups(elsewhere, _MOST_OPS)


def _scopes(scopes: Iterable[PlacedScope], marks: Mapping[str, str]) -> Table:
    """Table of the outer scopes; if there are many, of those with most operations."""
    near = [s for s in scopes if s.scope.count("/") < _DEPTH]
    heaviest = sorted(near, key=lambda s: (s.scope.count("/"), -s.ops))[:_MOST_SCOPES]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("ops", "elsewhere", "never ran", "copies"):
        table.add_column(name, justify="right")
    table.add_column("scope", overflow="fold")
    table.add_column("devices", overflow="fold")
    for scope in sorted(heaviest, key=lambda s: s.scope):
        table.add_row(*map(Text, _scope(scope, marks)))
    if len(near) > len(heaviest):
        table.add_row("", "", "", "", f"{len(near) - len(heaviest)} more with --scope", "")
    return table


def _scope(scope: PlacedScope, marks: Mapping[str, str]) -> tuple[str, ...]:
    counts = (scope.ops, scope.elsewhere, scope.never_ran)
    indent = "  " * (scope.scope.count("/") + bool(scope.scope))
    return (
        *(format_count(n) if n else "" for n in counts),
        f"{scope.copies:.3g}" if scope.copies else "",
        indent + (one_line(scope.scope.rpartition("/")[2]) or "the whole graph"),
        ", ".join(f"{marks[device]} {format_count(n)}" for device, n in scope.devices.items()),
    )


def _groups(ops: Iterable[PlacedOp], most: int) -> Iterator[RenderableType]:
    """Operations grouped by requested and actual device."""
    groups: dict[tuple[str, str, str], list[PlacedOp]] = defaultdict(list)
    for op in ops:
        groups[words.requested(op), words.actual(op), words.NOTES[op.placed]].append(op)
    for (requested, actual, note), group in sorted(groups.items()):
        place = one_line(actual)
        where = f"ran on {place}" if group[0].actual else place
        remark = f" ({note})" if note and note != actual else ""
        count = format_count(len(group)) + words.time(group)
        yield Text(f"\n  requested {one_line(requested)}, {where}: {count}{remark}", "cyan")
        lines = list(dict.fromkeys(op.line for op in group if op.line))
        if lines and note:
            yield Text(f"  responsible device scope: {one_line(', '.join(lines[:3]))}", "dim")
        first = group if len(group) <= most else sorted(group, key=_weight)[:most]
        yield from (_indented(op, words.copies(op), op.source) for op in first)
        if len(group) > most:
            yield Text(f"    {format_count(len(group) - most)} more with --moved", "dim")


def _weight(op: PlacedOp) -> tuple[bool, int, int]:
    """Sort key for the operations worth listing: work before constants, by time, by bytes."""
    return op.op in {"Const", "NoOp", "Identity"}, -(op.time_ns or 0), -(op.copied_bytes or 0)


def _indented(op: PlacedOp, *further: str) -> RenderableType:
    line = "  ".join(one_line(w) for w in (op.name, *further) if w)
    return Padding(Text(f"{one_line(op.op):<22} {line}"), (0, 0, 0, 4))


def _difference(difference: PlacementDifference) -> Iterator[RenderableType]:
    changes = difference.changes
    count = "No operation differs" if not changes else f"{format_count(len(changes))} differ"
    sentence = f"{count}, {format_count(difference.same)} are the same."
    yield from sentence_line(sentence, "yellow" if changes else "green")
    yield Text(f"  A  {visible(difference.a)}\n  B  {visible(difference.b)}", "dim")
    kinds: dict[str, list[PlacementChange]] = defaultdict(list)
    for change in changes:
        kinds[_kind(change)].append(change)
    for kind, group in sorted(kinds.items(), key=lambda item: -len(item[1])):
        yield Text(f"\n  {one_line(kind)}: {format_count(len(group))}", "cyan")
        yield from (_change(c) for c in group[:_MOST_CHANGES])
        if len(group) > _MOST_CHANGES:
            more = format_count(len(group) - _MOST_CHANGES)
            yield Text(f"    {more} more with --scope, or --json", "dim")


def _kind(change: PlacementChange) -> str:
    a, b = change.a, change.b
    if a is None or b is None:
        return "only in B" if a is None else "only in A"
    if a.actual != b.actual:
        return f"{words.actual(a)} -> {words.actual(b)}"
    return "other copies" if a.op == b.op else "another op of the same name"


def _change(change: PlacementChange) -> RenderableType:
    a, b = change.a, change.b
    if a is not None and b is not None:
        before, after = words.copies(a) or "no copies", words.copies(b) or "no copies"
        return _indented(b, f"{before} -> {after}" if before != after else "")
    op = a or b
    return _indented(op, words.actual(op)) if op else Text("")
