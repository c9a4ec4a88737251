"""A comparison as Markdown for a job's summary and a comment on a pull request.

The first line is a comment that nobody sees. It names the comparison, so that the next run finds
and updates its comment instead of adding another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction, format_ns
from stepwhy.show import words
from stepwhy.show.markdown_text import code, code_block, prose, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.base.errors import StepwhyError
    from stepwhy.result import CategoryDifference, Comparison, Machine, Measurement
    from stepwhy.result.gate import Gate

_NOT_IN_A_MARK = regex(r"[\W_]+")
_ICONS = {"passed": "✅", "slower": "❌", "unknown": "⚠️"}
_BEYOND = 9.0  # relative change; a percentage above it is not meaningful
# Categories that differ by less than this share of the step are not worth a row.
_LEAST_SHARE = 0.005
_MOST_NOTES, _MOST_CERTAIN = 10, 10


def marker(name: str) -> str:
    """The first line of a report, by which its comment is found again.

    Args:
        name: Name of the comparison.
    """
    return f"<!-- stepwhy-compare: {_NOT_IN_A_MARK.sub('-', name.lower()).strip('-')} -->"


def render(result: Comparison, gate: Gate, name: str) -> str:
    """The verdict, both step times, the change, what is certain, and warnings.

    Args:
        result: The comparison.
        gate: The limit, and whether B keeps it.
        name: Name of the comparison.
    """
    runs = f"{len(result.a.runs)} and {len(result.b.runs)} runs"
    machine = result.b.machines[0] if result.b.machines else None
    facts = _machine_facts(machine) if machine and result.comparable else ()
    footer = " · ".join([f"stepwhy {prose(result.stepwhy)}", runs, *map(prose, facts)])
    parts = [
        f"### {_ICONS[gate.outcome]} {prose(name)}: {_outcome(gate)}",
        f"**{prose(result.sentence)}**",
        _times(result),
        _detectable(result),
        *_notes(result),
        *_certain(result),
        *_categories(result),
        f"<sub>{footer}</sub>",
    ]
    return _document(name, parts)


def render_failure(error: StepwhyError, name: str) -> str:
    """Why there is no comparison.

    Args:
        error: What went wrong.
        name: Name of the comparison.
    """
    return _document(
        name, [f"### 💥 {prose(name)}: not measured", prose(str(error)), code(error.slug)]
    )


def _document(name: str, parts: list[str]) -> str:
    return "\n\n".join([marker(name), *parts]) + "\n"


def _outcome(gate: Gate) -> str:
    limit = f"more than {100 * gate.limit:g} % slower"
    match gate.outcome:
        case "passed":
            return f"not {limit}"
        case "slower":
            return limit
        case _:
            return f"cannot tell whether it is {limit}: {prose(gate.reason)}"


def _times(result: Comparison) -> str:
    sides = (result.a, result.b)
    head = ("", "A", "B", "change")
    rows = [["program", *(code(s.label) for s in sides), ""]]
    rows.append(["step time", *map(_step_time, sides), f"**{_change(result)}**"])
    if result.a.batch_size and result.b.batch_size:
        rates = (f"{1e9 * (s.batch_size or 0) / s.step_ns:.4g}" for s in sides)
        rows.append(["examples/s", *rates, ""])
    return "\n".join(table(head, rows, frozenset({1, 2, 3})))


def _step_time(side: Measurement) -> str:
    return f"{format_ns(side.step_ns)} ({format_ns(side.low_ns)} to {format_ns(side.high_ns)})"


def _change(result: Comparison) -> str:
    if result.low is None or result.high is None:
        return _signed_share(result.change)
    ends = f"{_signed_share(result.low)} to {_signed_share(result.high)}"
    return f"{_signed_share(result.change)} ({ends})"


def _signed_share(change: float) -> str:
    if change > _BEYOND:
        return f"more than {_BEYOND + 1:.0f} times"
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{format_fraction(abs(change))}"


def _detectable(result: Comparison) -> str:
    least = result.detectable
    if least is None:
        return "One run of each cannot show which changes would be detected."
    if least > _BEYOND:
        return "The noise of these runs hides any change."
    return f"Smallest change that these runs would detect: {format_fraction(least)}."


def _notes(result: Comparison) -> Iterator[str]:
    if result.notes:
        lines = [f"> - {prose(note)}" for note in result.notes[:_MOST_NOTES]]
        yield "\n".join(["> [!WARNING]", *lines])


def _certain(result: Comparison) -> Iterator[str]:
    if result.certain:
        yield "Certain, whatever the noise:"
        yield "\n".join(
            code_block("\n".join(map(one_line, result.certain[:_MOST_CERTAIN])), "text")
        )


def _categories(result: Comparison) -> Iterator[str]:
    least = _LEAST_SHARE * result.a.step_ns
    found = [c for c in result.categories if abs(c.difference_ns) >= least]
    if found:
        head = ("", "A", "B", "B - A", "")
        yield "<details><summary>Where the difference lies</summary>"
        yield "\n".join(table(head, map(_category, found), frozenset({1, 2, 3})))
        yield "</details>"


def _category(row: CategoryDifference) -> list[str]:
    sign = "+" if row.difference_ns > 0 else "-"
    may_be_chance = row.low_ns is not None and not row.sure
    return [
        words.CATEGORY_WORDS[row.category].label,
        format_ns(row.a_ns),
        format_ns(row.b_ns),
        f"{sign}{format_ns(abs(row.difference_ns))}",
        "may be chance" if may_be_chance else "",
    ]


def _machine_facts(machine: Machine) -> Iterator[str]:
    """What is known of the machine."""
    if machine.cpu:
        yield machine.cpu
    if machine.cores is not None:
        yield f"{machine.cores} cores"
    yield from machine.devices
    if machine.framework:
        yield machine.framework
    if machine.python:
        yield f"Python {machine.python}"
