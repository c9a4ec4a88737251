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
from stepwhy.base.patterns import regex
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import advice, blocks, words
from stepwhy.show.blocks import Span, sentence, sentences
from stepwhy.show.lines import is_hottest_listed, largest_lines, sampled_lines
from stepwhy.show.picture import CORRECTIONS_TITLE, corrections
from stepwhy.show.watched import watching_sentence
from stepwhy.show.without_findings import nothing_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepwhy.result import Device, Evidence, Finding, Fix, Input, Result

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
_OPS = 15
_SHORT_CODE = 8  # lines
_PLACE = regex(r"([^\s:()]+\.py)(?:\((\d+)\)|:(\d+))")
_SEVERITIES: dict[str, blocks.Tone] = {"error": "error", "warning": "warning", "info": "soft"}


def first_screen(result: Result) -> tuple[blocks.Block, ...]:
    """What is wrong, where, and what fixing it gains; what makes the times unreliable is first."""
    verdict, run = result.verdict, result.run
    untimed = replace(result.breakdown, wall_ns=0)  # the time is in the gain
    known = words.run_line(replace(result, run=replace(run, command=""), breakdown=untimed))
    command = (Span(" · " if known else ""), Span(run.command, "code")) if run.command else ()
    return (
        *(sentence(text, "error", is_alert=True) for text in [run.ending] if text),
        *(sentence(text, "warning", is_alert=True) for text in [verdict.caveat] if text),
        _headline(result),
        *_gain(result),
        *_first_fix(result),
        blocks.Sentence((Span(known), *command), "soft"),
        *sentences([words.PARTIAL] if words.is_partial(result) else [], "warning"),
        *_advice(result),
    )


def _headline(result: Result) -> blocks.Headline:
    """The verdict in a word or two, and what is wrong."""
    cause, stop, more = (result.verdict.cause or result.verdict.sentence).partition(". ")
    bound_by = result.verdict.bound_by
    word = f"{bound_by.capitalize()}-bound"
    tone: blocks.Tone = "error"
    if bound_by == "unknown":
        # A cause may be known where the rest of the step is not; a gap is only that rest.
        causes = [finding for finding in words.found(result) if finding.id != "wall-device-gap"]
        word = "Partly explained" if causes else "Cannot tell"
        tone = "warning"
    elif words.is_healthy(result):
        word, tone = "No known problem", "good"
    remark = "likely, not certain" if words.is_unsure(result.verdict) else ""
    text = f"{cause}{stop}".strip()
    return blocks.Headline(word, text, more, words.colour_of(bound_by), tone, remark)


def _gain(result: Result) -> Iterator[blocks.Gain]:
    """The step now and after the first fix; nothing if no time is known."""
    wall_ns, found = result.breakdown.wall_ns, words.found(result)
    if not wall_ns:
        return
    saving = found[0].saving if found else None
    times, remark = [wall_ns], ""
    if saving is not None and saving.high_ns > 0:
        saved = (min(ns, wall_ns) for ns in (saving.high_ns, saving.low_ns))
        times += [wall_ns - ns for ns in saved]
    elif found:
        remark = "no gain can be predicted"
    elif result.verdict.bound_by != "unknown":
        remark = "no known problem" if words.is_healthy(result) else "no known fix"
    if words.are_lone_runs(result):
        remark = ", ".join(filter(None, ("not a steady state", remark)))
    before, after = _ends(times, lambda ns: words.format_like(round(ns), wall_ns))
    per = words.per_whole(result) if words.whole(result) != "trace" else "in all"
    yield blocks.Gain(before, after, per, _rate(result, times), remark)


def _ends(amounts: Sequence[float], text: Callable[[float], str]) -> tuple[str, str]:
    """The amount now, and the interval of that after the fix; '' without one."""
    before, *after = map(text, amounts)
    if not after:
        return before, ""
    low, high = after
    if before in after:
        return before, f"at best {high if low == before else low}"
    return before, f"about {low}" if low == high else words.span(low, high)


def _rate(result: Result, times: Sequence[int]) -> str:
    """Examples per second before and after the fix; '' if their number is not known."""
    examples = result.steps.examples
    if not examples or result.run.ranks > 1 or words.whole(result) != "step" or 0 in times:
        return ""
    rates = [examples * units.NS_PER_S / ns for ns in (times[0], *reversed(times[1:]))]
    before, after = _ends(rates, lambda rate: f"{units.format_rate(rate)} examples/s")
    return f"{before.removesuffix(' examples/s')} → {after}" if after else before


def _first_fix(result: Result) -> Iterator[blocks.Block]:
    """What to change first, and where; or the line that takes most of the step."""
    found = words.found(result)
    place = _place(found[0]) if found else ""
    if found:
        where = (Span(" · "), Span(place, "code")) if place else ()
        yield blocks.Sentence((Span(found[0].title, "strong"), *where))
        if code := _short_code(found[0]):
            yield blocks.Code(code)
    if not place and result.verdict.bound_by != "unknown" and (lines := largest_lines(result)):
        yield blocks.Sentence((Span("The longest line is "), Span(lines[0], "code")))


def _short_code(finding: Finding) -> str:
    """Code of the fix if it fits on the first screen, else ''."""
    code = finding.fix.code if finding.fix else ""
    return code if len(code.splitlines()) <= _SHORT_CODE else ""


def _place(finding: Finding) -> str:
    """The first line of the program that evidence names, as 'file:line'; '' for none."""
    for fact in finding.evidence:
        for text in (fact.where, fact.value):
            if isinstance(text, str) and (found := _PLACE.search(text)):
                return f"{found[1]}:{found[2] or found[3]}"
    return ""


def _advice(result: Result) -> Iterator[blocks.Section]:
    if result.verdict.bound_by == "unknown" and (texts := advice.next_steps(result)):
        yield blocks.Section("advice", "What to do", (blocks.Bullets(tuple(texts)),))


def picture(result: Result) -> Iterator[blocks.Section]:
    """The breakdown of the step, with remarks; nothing without a breakdown."""
    breakdown = result.breakdown
    if not any(breakdown.categories.values()):
        return
    title = f"Where the {words.whole(result)} goes"
    yield blocks.Section(
        "picture",
        title,
        (
            blocks.Bar(title, breakdown.wall_ns, breakdown.categories),
            *(blocks.Sentence(spans, "soft") for spans in [tuple(_remarks(result))] if spans),
            *_corrections(result),
        ),
    )


def _remarks(result: Result) -> Iterator[Span]:
    """Sentences about the breakdown, each with a space after it."""
    breakdown = result.breakdown
    texts = (
        words.wall_clock_sentence(result),
        words.phase_sentence(breakdown),
        words.parallel_sentence(result),
        breakdown.note,
    )
    yield from (Span(f"{text} ") for text in texts if text)
    if not is_hottest_listed(result) and (line := breakdown.hottest_line):
        yield Span("While the device is idle, your code is most often at ")
        yield from (Span(line, "code"), Span(". "))
    for beginning, places in sampled_lines(result):
        for number, (share, place) in enumerate(places):
            yield from (Span(f"{',' if number else beginning} {share} in "), Span(place, "code"))
        yield Span(". ")


def _corrections(result: Result) -> Iterator[blocks.Section]:
    if texts := corrections(result.breakdown):
        yield blocks.Section(
            "corrections", CORRECTIONS_TITLE, (blocks.Bullets(tuple(texts)),), is_detail=True
        )


def findings(result: Result) -> Iterator[blocks.Section]:
    """The findings by cost, or what a result without any means; nothing without a verdict."""
    found = words.found(result)
    cards = tuple(_card(result, one, number) for number, one in enumerate(found, 1))
    if cards:
        others = sentences([explained_sentence(result)], "soft")
        yield blocks.Section("findings", "What to change", (*cards, *others))
    elif result.verdict.bound_by != "unknown":
        tone: blocks.Tone = "" if words.is_healthy(result) else "warning"
        yield blocks.Section("findings", "", (sentence(nothing_found(result), tone),))


def _card(result: Result, finding: Finding, number: int) -> blocks.Card:
    return blocks.Card(
        number,
        finding.id,
        finding.title,
        tuple(_figures(result, finding)),
        finding.saving.note if finding.saving else "",
        tuple(map(_evidence, finding.evidence)),
        tuple(_fix(finding.fix, with_code=number > 1 or not _short_code(finding)))
        if finding.fix
        else (),
    )


def _figures(result: Result, finding: Finding) -> Iterator[blocks.Figure]:
    ns, saving = finding.cost_ns_per_step, finding.saving
    if ns is not None:
        share = words.share(ns, result.breakdown.wall_ns)
        yield blocks.Figure("costs", units.format_ns(ns), words.per_whole(result), share)
    if saving:
        interval = words.format_saving(saving.low_ns, saving.high_ns)
        yield blocks.Figure("fixing it should save", interval, tone="good")


def _evidence(fact: Evidence) -> blocks.Fact:
    short = short_name(fact.where)
    where = (Span(" · ", "soft"), Span(short, "code", fact.where if short != fact.where else ""))
    return blocks.Fact(fact.what, ((Span(words.format_value(fact)), *(where if short else ())),))


def _fix(fix: Fix, *, with_code: bool) -> Iterator[blocks.Block]:
    """Text, code unless the first screen shows it, and risk."""
    yield sentence(fix.text)
    if fix.code and with_code:
        yield blocks.Code(fix.code)
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


def tables(result: Result) -> Iterator[blocks.Section]:
    """The operations with the most self time, and the devices, for those who want everything."""
    if result.ops:
        steps = words.steps_of_operations(result)
        shown = sorted(result.ops, key=lambda op: -op.self_ns)[:_OPS]
        title = f"Operations by self time ({len(shown)} of {len(result.ops)}, per step)"
        rows = tuple(
            (
                units.format_ns(op.self_ns),
                words.share(op.self_ns, steps[op.device]),
                words.format_calls(op.count),
                short_name(op.name),
                op.phase,
                op.device,
            )
            for op in shown
        )
        head = ("self", "share", "calls", "op", "phase", "device")
        yield blocks.Section("ops", title, (blocks.Table(head, rows, frozenset({0, 1, 2})),))
    if result.devices:
        head = ("device", "busy", "compute", "communication", "exposed", "copies")
        devices = tuple(map(_device_row, result.devices))
        table = blocks.Table(head, devices, frozenset(range(1, 6)))
        yield blocks.Section("devices", "Devices (per step)", (table,))


def _device_row(device: Device) -> tuple[str, ...]:
    times = (
        device.compute_ns,
        device.communication_ns,
        device.exposed_communication_ns,
        device.transfer_ns,
    )
    busy = units.format_fraction(device.busy_fraction)
    return device.name, busy, *map(units.format_ns, times)


def checks(result: Result) -> blocks.Checks:
    """The checks without a finding: clear ones, and by reason those that did not look."""
    order = list(words.VERDICT_WORDS)
    others = [finding for finding in result.findings if finding.verdict != "found"]
    by_outcome = [(order.index(one.verdict), _outcome(one), one) for one in others]
    by_outcome.sort(key=lambda row: row[:2])
    groups = [[row[2] for row in rows] for _, rows in groupby(by_outcome, lambda row: row[:2])]
    # The reasons that stop most checks come first.
    groups.sort(key=lambda group: (order.index(group[0].verdict), -len(group)))
    return blocks.Checks(tuple(map(_group, groups)))


def _outcome(finding: Finding) -> str:
    if finding.verdict == "clear":
        return finding.title
    return ": ".join(filter(None, (words.VERDICT_WORDS[finding.verdict], finding.reason)))


def _group(findings: list[Finding]) -> blocks.Group:
    first = findings[0]
    ids = tuple(finding.id for finding in findings)
    is_missing = first.verdict in words.ABSTAINED
    return blocks.Group(ids, _outcome(first), first.verdict == "clear", is_missing)


def reading(result: Result, *, show_all: bool, most_inputs: int = 3) -> blocks.Facts:
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
    return blocks.Facts(tuple(blocks.Fact(label, lines) for label, lines in rows if lines))


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
