"""The report as GitHub-flavoured Markdown, for issues, pull requests and chats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.show import blocks, picture, sections, words
from stepwhy.show import lines as by_line
from stepwhy.show.markdown_text import code, code_block, line, prose, table
from stepwhy.show.ranks import ranks_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepwhy.result import LineTime, Result

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
        *_blocks([*sections.first_screen(result), *sections.picture(result)], show_all=show_all),
        *_lines(result, show_all=show_all),
    ]
    after = [
        *_blocks(ranks_section(result, show_all=show_all), show_all=show_all),
        *_not_checked(sections.checks(result), "" if show_all else option),
        *_footer(result, show_all=show_all),
    ]
    room = None if show_all else MOST_LINES - len(before) - len(after)
    found = [text for one in sections.findings(result) for text in _findings(one, room)]
    return "\n".join([*before, *found, *after]) + "\n"


def _blocks(shown: Iterable[blocks.Block], *, show_all: bool) -> Iterator[str]:
    """Blocks with an empty line after each."""
    for block in shown:
        if isinstance(block, blocks.Section):
            if show_all or not block.is_detail:
                yield from (f"### {prose(block.title)}", "")
                yield from _blocks(block.blocks, show_all=show_all)
        else:
            yield from (*_block(block), "")


def _block(block: blocks.Block) -> Iterable[str]:
    match block:
        case blocks.Headline():
            remark = f" ({block.remark})" if block.remark else ""
            text = f"{block.text} {block.more}".strip()
            return [f"**{block.word}**{remark}: {prose(text)}"]
        case blocks.Gain():
            after = f" → {block.after}" if block.after else ""
            amount = _small(f"{block.before}{after} {block.of}")
            return [" · ".join(filter(None, (f"**{amount}**", _small(block.rate), block.remark)))]
        case blocks.Sentence():
            return [_spans(block.spans)]
        case blocks.Bullets():
            return [f"- {line(item)}" for item in block.items]
        case blocks.Bar():
            return _bar(block)
        case blocks.Table():
            rows = [(*map(_small, row[:-1]), prose(row[-1])) for row in block.rows]
            return table(block.head, rows, block.right)
        case blocks.Code():
            return code_block(block.text, "python")
    raise TypeError(block)


def _spans(spans: Sequence[blocks.Span]) -> str:
    """A line of text; what begins it is not taken for a list."""
    first, *others = spans
    return "".join((_span(first, line), *(_span(span, prose) for span in others)))


def _span(span: blocks.Span, as_text: Callable[[str], str]) -> str:
    shown = blocks.flat(span.text)
    core = shown.strip()
    if not core:
        return shown
    return shown.replace(core, code(core) if span.tone == "code" else as_text(core))


def _bar(bar: blocks.Bar) -> list[str]:
    rows = [
        (
            style.label,
            _small(words.format_like(ns, bar.wall_ns)),
            _small(words.share(ns, bar.wall_ns)),
            style.meaning,
        )
        for category, ns in picture.present(bar.categories)
        for style in (words.CATEGORY_WORDS[category],)
    ]
    return table(("category", "time", "share", "meaning"), rows, frozenset({1, 2}))


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


def _findings(section: blocks.Section, room: int | None) -> list[str]:
    """The findings by cost: in full while there is room, then by title.

    Args:
        section: The findings, or a sentence if there are none.
        room: Number of lines; None for any.
    """
    cards = [block for block in section.blocks if isinstance(block, blocks.Card)]
    others = list(_blocks(section.blocks[len(cards) :], show_all=True))
    if not cards:
        return others
    lines = [f"### {section.title}", ""]
    # Titles, and the sentence on what others explain.
    left = None if room is None else room - len(lines) - min(len(cards), _TITLES + 1) - 3
    shown = 0
    for card in cards:
        full = _card(card, is_whole=room is None)
        if left is not None and len(full) > left and shown:
            break
        lines += full
        left = None if left is None else left - len(full)
        shown += 1
    return [*lines, *_titles(cards[shown:]), *others]


def _titles(cards: Sequence[blocks.Card]) -> list[str]:
    """Findings that are not shown in full, one line each."""
    shown = [
        f"{card.number}. **{prose(card.title)}** ({code(card.id)})"
        f"{': ' * bool(card.figures)}{_figures(card)}"
        for card in cards[:_TITLES]
    ]
    if rest := cards[_TITLES:]:
        shown.append(f"{rest[0].number}. {len(rest)} more")
    return [*shown, ""] if shown else []


def _card(card: blocks.Card, *, is_whole: bool) -> list[str]:
    lines = [f"#### {card.number}. {prose(card.title)} ({code(card.id)})", ""]
    cost = _figures(card)
    lines += [f"{cost[0].upper()}{cost[1:]}.", ""] if cost else []
    lines += [line(card.note), ""] if card.note else []
    most = _FACTS_OF_FIRST if card.number == 1 else _FACTS_OF_OTHERS
    facts = [
        f"- {line(fact.label)}: {_spans(fact.lines[0])}"
        for fact in (card.evidence if is_whole else card.evidence[:most])
    ]
    fix = [one if is_whole else _shortened(one) for one in card.fix]
    return [*lines, *facts, *([""] if facts else []), *_blocks(fix, show_all=True)]


def _shortened(block: blocks.Block) -> blocks.Block:
    if not isinstance(block, blocks.Code):
        return block
    rows = block.text.rstrip().split("\n")
    more = [f"# {len(rows) - _LONGEST_CODE} more lines"] if len(rows) > _LONGEST_CODE else []
    return blocks.Code("\n".join([*rows[:_LONGEST_CODE], *more]))


def _figures(card: blocks.Card) -> str:
    parts = []
    for figure in card.figures:
        amount = _small(" ".join(filter(None, (figure.amount, figure.of))))
        share = f", {_small(figure.share)} of it" if figure.share else ""
        parts.append(f"{figure.label} **{amount}**{share}")
    return "; ".join(parts)


def _not_checked(checks: blocks.Checks, option: str) -> list[str]:
    """Diagnoses that abstained, one line per reason, those that stop most of them first.

    Args:
        checks: All checks.
        option: Name of the option that shows all reasons; '' to show them.
    """
    groups = [group for group in checks.groups if group.is_missing]
    if not groups:
        return []
    shown = groups[:_REASONS] if option else groups
    rest = sum(len(group.ids) for group in groups[len(shown) :])
    lines = [f"- {_names(one.ids, show_all=not option)}: {prose(one.text)}" for one in shown]
    lines += [f"- {rest} more, which `{option}` shows"] if rest else []
    return ["### Not checked", "", *lines, ""]


def _names(ids: Sequence[str], *, show_all: bool) -> str:
    most = len(ids) if show_all else _IDS
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(map(code, ids[:most]))}{more}"


def _footer(result: Result, *, show_all: bool) -> list[str]:
    shown = []
    most_inputs = len(result.inputs) if show_all else 3
    for fact in sections.reading(result, show_all=show_all, most_inputs=most_inputs).rows:
        most = len(fact.lines) if show_all else _NOTES
        label = "" if fact.label == "Notes" else f"{fact.label}: "
        shown += [f"- {label}{_spans(spans)}" for spans in fact.lines[:most]]
    version = f" {prose(result.stepwhy)}" if result.stepwhy else ""
    return ["---", "", *shown, "", f"Made by stepwhy{version}."]
