"""The report of a result: what to say, and in which order, for the terminal, the page and Markdown.

Each function makes one section. What is drawn or sorted, such as the timeline, charts and tables of
operations, is not here: each kind of report has its own way for these.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import advice, words
from stepwhy.show.blocks import (
    Bar,
    Bullets,
    Card,
    Checks,
    Code,
    Fact,
    Facts,
    Figure,
    Group,
    Headline,
    Section,
    Sentence,
    Span,
    Table,
    sentence,
    sentences,
)
from stepwhy.show.picture import CORRECTIONS_TITLE, corrections
from stepwhy.show.ranks import SHOWN, others_sentence, takes_longer, those_that_matter
from stepwhy.show.watched import watching_sentence
from stepwhy.show.without_findings import nothing_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwhy.result import Evidence, Finding, Fix, Input, RankUse, Result
    from stepwhy.show.blocks import Block, Tone

_RISK_WORDS = {
    "none": "",
    "changes-numerics": "may change numerical results; compare a few {compare}",
    "changes-memory": "needs more or less memory; watch the peak",
    "unknown": "side effects unknown; try it on a short run",
}
_NOT_FIRST = (
    (False, "Also found, but explained by a finding above", "by"),
    (True, "Also found, to be fixed next", "hidden by"),
)
_SEVERITIES: dict[str, Tone] = {"error": "error", "warning": "warning", "info": "soft"}


def header(result: Result) -> tuple[Block, ...]:
    """What makes the times unreliable, the verdict, the run, and advice without a verdict."""
    verdict, run = result.verdict, result.run
    known = words.run_line(replace(result, run=replace(run, command="")))
    command = (Span(" · " if known else ""), Span(run.command, "code")) if run.command else ()
    return (
        *(sentence(text, "error", is_alert=True) for text in [run.ending] if text),
        *(sentence(text, "warning", is_alert=True) for text in [verdict.caveat] if text),
        _headline(result),
        *sentences([words.wall_clock_sentence(result)]),
        Sentence((Span(known), *command), "soft"),
        *sentences([words.PARTIAL] if words.is_partial(result) else [], "warning"),
        *_advice(result),
    )


def _headline(result: Result) -> Headline:
    bound_by = result.verdict.bound_by
    word = f"Bound by {bound_by}"
    tone: Tone = "error"
    if bound_by == "unknown":
        word, tone = "Cannot tell", "warning"
    elif words.is_healthy(result):
        word, tone = "No problem found", "good"
    remark = "likely, not certain" if words.is_unsure(result.verdict) else ""
    return Headline(word, result.verdict.sentence, words.colour_of(bound_by), tone, remark)


def _advice(result: Result) -> Iterator[Section]:
    if result.verdict.bound_by == "unknown" and (texts := advice.next_steps(result)):
        yield Section("advice", "What to do", (Bullets(tuple(texts)),))


def picture(result: Result) -> Iterator[Section]:
    """The breakdown of the step, with remarks; nothing without a breakdown."""
    breakdown = result.breakdown
    if not any(breakdown.categories.values()):
        return
    title = f"Where the {words.whole(result)} goes"
    yield Section(
        "picture",
        title,
        (
            Bar(title, breakdown.wall_ns, breakdown.categories),
            *(Sentence(spans, "soft") for spans in [tuple(_remarks(result))] if spans),
            *_corrections(result),
        ),
    )


def _remarks(result: Result) -> Iterator[Span]:
    """Sentences about the breakdown, each with a space after it."""
    breakdown = result.breakdown
    texts = (words.phase_sentence(breakdown), words.parallel_sentence(result), breakdown.note)
    yield from (Span(f"{text} ") for text in texts if text)
    line = "" if words.is_hottest_listed(result) else breakdown.hottest_line
    if line:
        yield Span("While the device is idle, your code is most often at ")
        yield from (Span(line, "code"), Span(". "))
    for beginning, places in words.sampled_lines(result):
        for number, (share, place) in enumerate(places):
            yield from (Span(f"{',' if number else beginning} {share} in "), Span(place, "code"))
        yield Span(". ")


def _corrections(result: Result) -> Iterator[Section]:
    if texts := corrections(result.breakdown):
        yield Section("corrections", CORRECTIONS_TITLE, (Bullets(tuple(texts)),), is_detail=True)


def findings(result: Result) -> Iterator[Section]:
    """The findings by cost, or what a result without any means; nothing without a verdict."""
    found = words.found(result)
    cards = tuple(_card(result, one, number) for number, one in enumerate(found, 1))
    if cards:
        others = sentences([explained_sentence(result)], "soft")
        yield Section("findings", "What to change", (*cards, *others))
    elif result.verdict.bound_by != "unknown":
        tone: Tone = "" if words.is_healthy(result) else "warning"
        yield Section("findings", "", (sentence(nothing_found(result), tone),))


def _card(result: Result, finding: Finding, number: int) -> Card:
    return Card(
        number,
        finding.id,
        finding.title,
        tuple(_figures(result, finding)),
        finding.saving.note if finding.saving else "",
        tuple(map(_evidence, finding.evidence)),
        tuple(_fix(finding.fix)) if finding.fix else (),
    )


def _figures(result: Result, finding: Finding) -> Iterator[Figure]:
    ns, saving = finding.cost_ns_per_step, finding.saving
    if ns is not None:
        share = words.share(ns, result.breakdown.wall_ns)
        yield Figure("costs", units.format_ns(ns), words.per_whole(result), share)
    if saving:
        interval = words.format_saving(saving.low_ns, saving.high_ns)
        yield Figure("fixing it should save", interval, tone="good")


def _evidence(fact: Evidence) -> Fact:
    short = short_name(fact.where)
    where = (Span(" · ", "soft"), Span(short, "code", fact.where if short != fact.where else ""))
    return Fact(fact.what, ((Span(words.format_value(fact)), *(where if short else ())),))


def _fix(fix: Fix) -> Iterator[Block]:
    yield sentence(fix.text)
    if fix.code:
        yield Code(fix.code)
    if text := risk(fix):
        yield sentence(f"Risk: {text}.", "warning")


def risk(fix: Fix) -> str:
    """What else a fix may change, and what to check; '' for nothing."""
    return _RISK_WORDS[fix.risk].format(compare=fix.compare)


def explained_sentence(result: Result) -> str:
    """The findings that others explain or hide; '' for none."""
    others = [f for f in result.findings if f.verdict == "found" and f.explained_by]
    sentences = []
    for hidden, text, how in _NOT_FIRST:
        chosen = [f for f in others if f.hidden is hidden]
        names = [f"{one_line(f.id)} ({how} {one_line(f.explained_by)})" for f in chosen]
        if names:
            sentences.append(f"{text}: {', '.join(names)}.")
    return " ".join(sentences)


def ranks(result: Result, *, show_all: bool) -> Iterator[Section]:
    """The ranks for which the others wait longest, or all of them; nothing for a single rank."""
    if not result.ranks:
        return
    shown = those_that_matter(result.ranks, len(result.ranks) if show_all else SHOWN)
    head = ("rank", "step", "works", "waits", "moves data", "late by", "last in", "takes longer")
    table = Table(head, tuple(map(_rank_row, shown)), len(head) - 1)
    title = f"Ranks ({len(shown)} of {len(result.ranks)}, per step)"
    rest = others_sentence(result.ranks, shown)
    rest = rest and f"Those that the others wait for longest. {rest}"
    yield Section("ranks", title, (table, *sentences([rest], "soft")))


def _rank_row(rank: RankUse) -> tuple[str, ...]:
    times = (rank.step_ns, rank.work_ns, rank.wait_ns, rank.transfer_ns, rank.late_ns)
    return (
        str(rank.rank),
        *("?" if ns is None else units.format_ns(ns) for ns in times),
        "?" if rank.last is None else units.format_count(rank.last),
        takes_longer(rank),
    )


def checks(result: Result) -> Checks:
    """The checks without a finding: clear ones, and by reason those that did not look."""
    order = list(words.VERDICT_WORDS)
    others = [finding for finding in result.findings if finding.verdict != "found"]
    by_outcome = [(order.index(one.verdict), _outcome(one), one) for one in others]
    by_outcome.sort(key=lambda row: row[:2])
    groups = [[row[2] for row in rows] for _, rows in groupby(by_outcome, lambda row: row[:2])]
    # The reasons that stop most checks come first.
    groups.sort(key=lambda group: (order.index(group[0].verdict), -len(group)))
    return Checks(tuple(map(_group, groups)))


def _outcome(finding: Finding) -> str:
    if finding.verdict == "clear":
        return finding.title
    return ": ".join(filter(None, (words.VERDICT_WORDS[finding.verdict], finding.reason)))


def _group(findings: list[Finding]) -> Group:
    first = findings[0]
    ids = tuple(finding.id for finding in findings)
    is_missing = first.verdict in words.ABSTAINED
    return Group(ids, _outcome(first), first.verdict == "clear", is_missing)


def reading(result: Result, *, show_all: bool, most_inputs: int = 3) -> Facts:
    """How reliable the report is: steps, devices, inputs, what happened while reading, and notes.

    Args:
        result: What to report.
        show_all: List what is only of interest when figures are in doubt, too.
        most_inputs: Number of files to name.
    """
    rows = (
        ("Steps", _lines(steps_texts(result, show_all=show_all))),
        (_one_or_more("GPU", gpus := words.gpu_sentences(result)), _lines(gpus)),
        (_one_or_more("Input", result.inputs), tuple(_inputs(result.inputs, most_inputs))),
        ("Reading", tuple(_health(result.inputs, show_all=show_all))),
        ("Notes", _lines(words.notes(result))),
    )
    return Facts(tuple(Fact(label, lines) for label, lines in rows if lines))


def steps_texts(result: Result, *, show_all: bool) -> list[str]:
    """How the steps were found, how long they take, and what watching them cost."""
    watching = watching_sentence(result.steps)
    # That a cost is unknown helps nobody whose step is slow.
    is_known = result.steps.observer_cost_missing_steps is None
    texts = (words.steps_line(result), watching if show_all or is_known else "", result.steps.note)
    return [text for text in texts if text]


def _lines(texts: Iterable[str]) -> tuple[tuple[Span, ...], ...]:
    return tuple((Span(text),) for text in texts)


def _one_or_more(what: str, things: Iterable[object]) -> str:
    return what if len(list(things)) == 1 else f"{what}s"


def _inputs(inputs: tuple[Input, ...], most: int) -> Iterator[tuple[Span, ...]]:
    for file in inputs[:most]:
        yield Span(file.path, "code"), Span(f" · {file.format}, {_events((file,))}", "soft")
    if rest := inputs[most:]:
        files = "1 more file" if len(rest) == 1 else f"{len(rest)} more files"
        yield Span(f"and {files}"), Span(f" · {_events(rest)}", "soft")


def _events(files: tuple[Input, ...]) -> str:
    read, kept = sum(f.events_read for f in files), sum(f.events_kept for f in files)
    if read == kept:
        return f"{units.format_count(read)} events"
    return f"{units.format_count(kept)} of {units.format_count(read)} events kept"


def _health(inputs: tuple[Input, ...], *, show_all: bool) -> Iterator[tuple[Span, ...]]:
    """One line per counter over all inputs, errors first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    paths: dict[tuple[str, str, str], list[str]] = {}
    for file in inputs:
        for entry in file.health:
            if entry.count:
                counts[key := (entry.severity, entry.counter, entry.help)] += entry.count
                paths.setdefault(key, []).append(file.path)
    for severity in ("error", "warning", "info") if show_all else ("error", "warning"):
        for (own, counter, text), count in counts.items():
            if own == severity:
                found = paths[own, counter, text]
                files = found[0] if len(found) == 1 else f"{units.format_count(len(found))} files"
                where = f" in {files}" if len(inputs) > 1 else ""
                yield (
                    Span(f"{severity}:", _SEVERITIES[severity]),
                    Span(f" {text}"),
                    Span(f" ({counter}: {units.format_count(count)}{where})", "soft"),
                )


__all__ = [
    "checks", "explained_sentence", "findings", "header", "picture", "ranks", "reading", "risk",
    "steps_texts",
]  # fmt: skip
