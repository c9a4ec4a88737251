"""The verdict, a line about the run, and advice if there is no verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.show import advice, words
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import Result


def header(result: Result) -> Iterator[RenderableType]:
    """How the run ended if it failed, what makes times unreliable, the verdict, and the run."""
    yield Text("")
    if result.run.ending:
        ending = Table.grid(padding=(0, 1, 0, 0))
        ending.add_row(Text("■", "red"), Text(one_line(result.run.ending), "bold red"))
        yield ending
    if result.verdict.caveat:
        caveat = Table.grid(padding=(0, 1, 0, 0))
        caveat.add_row(Text("■", "yellow"), Text(one_line(result.verdict.caveat), "bold yellow"))
        yield caveat
    verdict = Table.grid(padding=(0, 1, 0, 0))
    verdict.add_row(Text("■", words.colour_of(result.verdict.bound_by)), _sentence(result))
    yield verdict
    if clock := words.wall_clock_sentence(result):
        yield Padding(Text(clock), (0, 0, 0, 2))
    yield Padding(Text(words.run_line(result), "dim"), (0, 0, 0, 2))
    if words.is_partial(result):
        yield Padding(Text(words.PARTIAL, "yellow"), (0, 0, 0, 2))
    if result.verdict.bound_by == "unknown":
        yield from _what_to_do(result)


def _sentence(result: Result) -> Text:
    verdict = result.verdict
    return Text.assemble(
        (one_line(verdict.sentence), _sentence_style(result)),
        ("  (likely, not certain)" if words.is_unsure(verdict) else "", "dim"),
    )


def _sentence_style(result: Result) -> str:
    if result.verdict.bound_by == "unknown":
        return "bold yellow"
    return "bold green" if words.is_healthy(result) else "bold red"


def _what_to_do(result: Result) -> Iterator[RenderableType]:
    yield Text("\nWhat to do", "bold")
    for sentence in advice.next_steps(result):
        yield Padding(Text(one_line(sentence)), (0, 0, 0, 2))
