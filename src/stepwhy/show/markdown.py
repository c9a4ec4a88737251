"""The report as GitHub-flavoured Markdown, for issues, pull requests and chats."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base import units
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import advice, picture, words
from stepwhy.show import lines as by_line
from stepwhy.show.found import explained_sentence
from stepwhy.show.found import risk as risk_of
from stepwhy.show.markdown_text import code, code_block, line, prose, table
from stepwhy.show.ranks import others_sentence, takes_longer, those_that_matter
from stepwhy.show.without_findings import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepwhy.result import Evidence, Finding, Fix, LineTime, RankUse, Result

MOST_LINES = 120
"""Most lines of a report that does not show everything."""

_FACTS_OF_FIRST, _FACTS_OF_OTHERS = 6, 3
_TITLES, _REASONS, _NOTES, _IDS = 8, 5, 4, 4
_LONGEST_CODE = 30  # lines


def render(result: Result, *, show_all: bool = False, option: str = "--all") -> str:
    """Verdict, breakdown, findings, and what could not be checked.

    Args:
        result: What to report.
        show_all: Show every finding in full, and all reasons; otherwise as many as fit into
            `MOST_LINES`.
        option: Name of the option that shows everything, for readers of a shorter report.
    """
    before = [
        *_verdict(result),
        *_breakdown(result, show_all=show_all),
        *_lines(result, show_all=show_all),
    ]
    unchecked = _not_checked(result, "" if show_all else option)
    ranks = _ranks(result, show_all=show_all)
    after = [*ranks, *unchecked, *_footer(result, show_all=show_all)]
    room = None if show_all else MOST_LINES - len(before) - len(after)
    return "\n".join([*before, *_findings(result, room), *after]) + "\n"


def _verdict(result: Result) -> list[str]:
    verdict = result.verdict
    unsure = " (likely, not certain)" if words.is_unsure(verdict) else ""
    important = filter(None, (result.run.ending, verdict.caveat))
    lines = [f"**{prose(verdict.sentence)}**{unsure}", *map(line, important)]
    lines += [line(words.wall_clock_sentence(result)), _run(result)]
    lines += [words.PARTIAL] if words.is_partial(result) else []
    shown = [text for paragraph in lines if paragraph for text in (paragraph, "")]
    if verdict.bound_by != "unknown":
        return shown
    return [*shown, *(f"- {line(sentence)}" for sentence in advice.next_steps(result)), ""]


def _run(result: Result) -> str:
    """The line about the run, with its command as code."""
    known = line(words.run_line(replace(result, run=replace(result.run, command=""))))
    return " · ".join(filter(None, (known, code(result.run.command))))


def _breakdown(result: Result, *, show_all: bool) -> list[str]:
    breakdown = result.breakdown
    wall = breakdown.wall_ns
    if not any(breakdown.categories.values()):
        return []
    rows = [
        (
            style.label,
            _small(words.format_like(ns, wall)),
            _small(words.share(ns, wall)),
            style.meaning,
        )
        for category, ns in picture.present(breakdown.categories)
        for style in (words.CATEGORY_WORDS[category],)
    ]
    head = ("category", "time", "share", "meaning")
    remark = " ".join(
        filter(None, (words.phase_sentence(breakdown), breakdown.note, _hottest(result)))
    )
    return [
        f"### Where the {words.whole(result)} goes",
        "",
        *table(head, rows, frozenset({1, 2})),
        "",
        *([line(remark), ""] if remark else []),
        *(_corrections(result) if show_all else []),
    ]


def _corrections(result: Result) -> list[str]:
    """How the breakdown follows from the record."""
    sentences = [f"- {line(sentence)}" for sentence in picture.corrections(result.breakdown)]
    return [f"{picture.CORRECTIONS_TITLE}:", "", *sentences, ""] if sentences else []


def _lines(result: Result, *, show_all: bool) -> list[str]:
    """The lines of the program that take most of the step, or all of them."""
    breakdown = result.lines
    if breakdown is None:
        return []
    shown = by_line.chosen(breakdown, by_line.MOST if show_all else by_line.SHOWN)
    rows = [cells for row in shown for cells in _line_rows(row, breakdown.wall_ns)]
    rest = by_line.rest_sentence(breakdown, shown)
    return [
        f"### {by_line.lines_title(result)}",
        "",
        *table(("line", "time", "share", "what it does"), rows, frozenset({1, 2})),
        "",
        *([line(rest), ""] if rest else []),
    ]


def _line_rows(row: LineTime, wall_ns: int) -> Iterator[tuple[str, ...]]:
    """The row of a line, and those of what it runs if it takes most of the step."""
    is_most = by_line.is_most(row, wall_ns)
    name = code(row.line) if row.kind == "line" else by_line.line_name(row)
    what = by_line.what_it_does(row, with_operations=not is_most)
    for first, ns, last in (
        (name, row.time_ns, what),
        *(("", ns, inner) for inner, ns in (by_line.inside(row) if is_most else ())),
    ):
        time = _small(words.format_like(ns, wall_ns))
        yield first, time, _small(words.share(ns, wall_ns)), prose(last)


def _small(amount: str) -> str:
    """An amount such as '<0.1 ms', which HTML would begin a tag with."""
    return amount.replace("<", r"\<")


def _hottest(result: Result) -> str:
    place = "" if result.lines is not None else result.breakdown.hottest_line
    return f"While the device is idle, your code is most often at {place}." if place else ""


def _findings(result: Result, room: int | None) -> list[str]:
    """The findings by cost: in full while there is room, then by title.

    Args:
        result: What to report.
        room: Number of lines; None for any.
    """
    found = words.found(result)
    if not found:
        is_known = result.verdict.bound_by != "unknown"
        return [prose(nothing_found(result)), ""] if is_known else []
    lines = ["### What to change", ""]
    # Titles, and the sentence on what others explain.
    left = None if room is None else room - len(lines) - min(len(found), _TITLES + 1) - 3
    number = 0
    for number, finding in enumerate(found, start=1):
        full = _finding(result, finding, number, is_whole=room is None)
        if left is not None and len(full) > left and number > 1:
            break
        lines += full
        left = None if left is None else left - len(full)
    else:
        number += 1
    return [*lines, *_titles(result, found, number), *_explained(result)]


def _titles(result: Result, found: Sequence[Finding], first: int) -> list[str]:
    """The findings from a number on, one line each."""
    rest = found[first - 1 :]
    shown = [
        f"{number}. **{prose(finding.title)}** ({code(finding.id)}){_after(_cost(result, finding))}"
        for number, finding in enumerate(rest[:_TITLES], start=first)
    ]
    if len(rest) > _TITLES:
        shown.append(f"{first + _TITLES}. {len(rest) - _TITLES} more")
    return [*shown, ""] if shown else []


def _after(text: str) -> str:
    return f": {text}" if text else ""


def _explained(result: Result) -> list[str]:
    sentence = explained_sentence(result)
    return [prose(sentence), ""] if sentence else []


def _finding(result: Result, finding: Finding, number: int, *, is_whole: bool) -> list[str]:
    cost = _cost(result, finding)
    lines = [f"#### {number}. {prose(finding.title)} ({code(finding.id)})", ""]
    lines += [f"{cost[0].upper()}{cost[1:]}.", ""] if cost else []
    if finding.saving and finding.saving.note:
        lines += [line(finding.saving.note), ""]
    most = _FACTS_OF_FIRST if number == 1 else _FACTS_OF_OTHERS
    facts = finding.evidence if is_whole else finding.evidence[:most]
    lines += [*map(_fact, facts), ""] if facts else []
    return lines + (_fix(finding.fix, is_whole=is_whole) if finding.fix else [])


def _cost(result: Result, finding: Finding) -> str:
    parts = []
    if finding.cost_ns_per_step is not None:
        ns, wall = finding.cost_ns_per_step, result.breakdown.wall_ns
        part = f", {words.share(ns, wall)} of it" if wall > 0 else ""
        parts.append(f"costs **{units.format_ns(ns)} {words.per_whole(result)}**{part}")
    if finding.saving:
        interval = words.format_saving(finding.saving.low_ns, finding.saving.high_ns)
        parts.append(f"fixing it should save **{interval}**")
    return "; ".join(parts)


def _fact(fact: Evidence) -> str:
    where = f" · {code(short_name(fact.where))}" if fact.where else ""
    return f"- {line(fact.what)}: {prose(words.format_value(fact))}{where}"


def _fix(fix: Fix, *, is_whole: bool) -> list[str]:
    lines = [line(fix.text), ""]
    if fix.code:
        shown = fix.code.rstrip().split("\n")
        if not is_whole and len(shown) > _LONGEST_CODE:
            shown = [*shown[:_LONGEST_CODE], f"# {len(shown) - _LONGEST_CODE} more lines"]
        lines += [*code_block("\n".join(shown), "python"), ""]
    if risk := risk_of(fix):
        lines += [f"Risk: {risk}.", ""]
    return lines


def _ranks(result: Result, *, show_all: bool) -> list[str]:
    """The ranks that matter, or all of them; none for a single rank."""
    if not result.ranks:
        return []
    shown = result.ranks if show_all else those_that_matter(result.ranks)
    head = ("rank", "step", "works", "waits", "moves data", "late by", "last in", "takes longer")
    rest = others_sentence(result.ranks, shown)
    return [
        "### Ranks",
        "",
        *table(head, map(_rank_row, shown), frozenset(range(7))),
        "",
        *([line(rest), ""] if rest else []),
    ]


def _rank_row(rank: RankUse) -> tuple[str, ...]:
    times = (rank.step_ns, rank.work_ns, rank.wait_ns, rank.transfer_ns, rank.late_ns)
    return (
        str(rank.rank),
        *("?" if ns is None else _small(units.format_ns(ns)) for ns in times),
        "?" if rank.last is None else units.format_count(rank.last),
        prose(takes_longer(rank)),
    )


def _not_checked(result: Result, option: str) -> list[str]:
    """Diagnoses that abstained, one line per reason, those that stop most of them first.

    Args:
        result: What to report.
        option: Name of the option that shows all reasons; '' to show them.
    """
    abstained = [f for f in result.findings if f.verdict in words.ABSTAINED]
    if not abstained:
        return []
    abstained.sort(key=lambda f: f.reason)
    groups = [(why, list(own)) for why, own in groupby(abstained, key=lambda f: f.reason)]
    groups.sort(key=lambda group: -len(group[1]))
    shown = groups[:_REASONS] if option else groups
    rest = len(abstained) - sum(len(own) for _, own in shown)
    lines = [f"- {_names(own, show_all=not option)}: {prose(why)}" for why, own in shown]
    lines += [f"- {rest} more, which `{option}` shows"] if rest else []
    return ["### Not checked", "", *lines, ""]


def _names(findings: Sequence[Finding], *, show_all: bool) -> str:
    names = [code(finding.id) for finding in findings]
    most = len(names) if show_all else _IDS
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _footer(result: Result, *, show_all: bool) -> list[str]:
    steps = words.steps_line(result)
    lines = [f"Steps: {prose(steps)}"]
    lines += [line(result.steps.note)] if result.steps.note else []
    read = [f"{code(file.path)} ({prose(file.format)})" for file in result.inputs]
    most = len(read) if show_all else 3
    more = f" and {len(read) - most} more" if len(read) > most else ""
    lines += [f"Read: {', '.join(read[:most])}{more}"] if read else []
    notes = words.notes(result)
    lines += [line(note) for note in (notes if show_all else notes[:_NOTES])]
    version = f" {prose(result.stepwhy)}" if result.stepwhy else ""
    return ["---", "", *(f"- {text}" for text in lines), "", f"Made by stepwhy{version}."]


__all__ = ["MOST_LINES", "render"]
