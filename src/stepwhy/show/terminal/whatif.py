"""The output of `stepwhy whatif`: what changes would gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line, visible
from stepwhy.base.units import format_fraction, format_ns
from stepwhy.show import words
from stepwhy.show.console import Text
from stepwhy.show.terminal.measurement import print_parts
from stepwhy.show.terminal.slowdown import slowdown_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import Prediction, Refusal, Replay, WhatIfResult
    from stepwhy.show.console import Console


def render_whatif(result: WhatIfResult, console: Console | None = None) -> None:
    """Print the predictions as a table, how they were made, and what cannot be predicted.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    print_parts([*_parts(result), Text("")], console)


def _parts(result: WhatIfResult) -> Iterator[RenderableType]:
    step = f"{format_ns(result.step_ns)} per step now"
    yield Text.assemble((f"\n{visible(result.path)}", "bold"), (f"  {step}", "dim"))
    if result.slowdown is not None:
        yield from slowdown_parts(result.slowdown)
    if result.predictions:
        yield Padding(_table(result), (1, 0, 0, 2))
        yield from _notes(result)
    if result.refusals:
        yield Text("\nNot predicted", "bold")
        yield Padding(_refused(result.refusals), (0, 0, 0, 2))
    if result.replay is not None:
        yield Padding(Text(f"\n{_quality(result.replay)}", "dim"), (0, 0, 0, 2))


def _table(result: WhatIfResult) -> Table:
    """One row per prediction, those that gain most first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("change", overflow="fold")
    for name in ("step", "saves", "of the step", "subtracted"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in sorted(result.predictions, key=lambda p: p.remaining_ns):
        table.add_row(*map(Text, _cells(one)))
    return table


def _cells(one: Prediction) -> tuple[str, ...]:
    low, high = one.gain_ns
    shares = [format_fraction(gain / max(one.step_ns, 1)) for gain in (low, high)]
    share = shares[0] if shares[0] == shares[1] else f"{shares[0]} to {shares[1]}"
    return (
        _change(one),
        format_ns(one.remaining_ns),
        words.format_saving(low, high) if high > 0 else "nothing",
        share if high > 0 else "",
        format_ns(one.naive_ns),
    )


def _change(one: Prediction | Refusal) -> str:
    """The edits, with the finding that they fix."""
    edits = one_line(" + ".join(map(str, one.edits)))
    return f"{one.finding}: {edits}" if one.finding else edits


def _notes(result: WhatIfResult) -> Iterator[RenderableType]:
    yield Padding(
        Text(
            "\n'subtracted' is the step minus the time of the changed work, as if the step then "
            "waited for nothing else. The low end of a fix assumes that it removes no more than "
            "such fixes are known to remove.",
            "dim",
        ),
        (0, 0, 0, 2),
    )
    for note in dict.fromkeys(note for one in result.predictions for note in one.notes):
        yield Padding(Text(one_line(note), "dim"), (0, 0, 0, 2))


def _refused(refusals: tuple[Refusal, ...]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    by_reason: dict[str, list[str]] = {}
    for one in refusals:
        reason = f"{one.reason} {one.todo}".strip()
        by_reason.setdefault(reason, []).append(_change(one))
    for reason, edits in by_reason.items():
        table.add_row(Text(", ".join(edits)), Text(one_line(reason)))
    return table


def _quality(replay: Replay) -> str:
    """How well the recorded steps can be replayed."""
    if not replay.qualifies:
        return " ".join(("The recorded steps cannot be replayed.", *replay.reasons))
    parts = [
        f"the launch of {format_fraction(replay.joined_share or 0)} of the device work is known",
        f"the cause of {format_fraction(replay.opaque_share or 0)} of the critical path is not",
        f"with usual delays the replay misses the step by {_error(replay.median_error or 0)}",
    ]
    return f"The recorded steps can be replayed: {parts[0]}, {parts[1]}, and {parts[2]}."


def _error(error: float) -> str:
    return format_fraction(error) if error >= 0.001 else "less than 0.1 %"
