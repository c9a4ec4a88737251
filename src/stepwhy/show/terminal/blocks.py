"""The blocks of a report as lines of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line, plain
from stepwhy.show import blocks, picture, words
from stepwhy.show.console import Text
from stepwhy.show.terminal.finish import TOGETHER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

STYLES: dict[blocks.Tone, str] = {
    "": "",
    "strong": "bold",
    "soft": "dim",
    "code": "",
    "good": "bold green",
    "warning": "yellow",
    "error": "red",
}
# Evidence of the first finding and of the others, and findings in full; --all shows the rest.
_FACTS_OF_FIRST, _FACTS_OF_OTHERS, _IN_FULL = 6, 3, 4
_INDENT = 2
_WIDE = 90  # columns; narrower tables leave out their last column
# Columns that a legend row with the meaning of its category needs, without the bar.
_ROW_WITH_MEANING = 72


class View(msgspec.Struct, frozen=True):
    """What a terminal shows.

    Args:
        width: Columns of the report.
        has_colour: If False, a bar consists of the letters of the categories.
        show_all: Show everything.
    """

    width: int
    has_colour: bool
    show_all: bool


def rendered(
    shown: Iterable[blocks.Block], view: View, indent: int = _INDENT
) -> Iterator[RenderableType]:
    """Blocks one below the other.

    Args:
        shown: The blocks.
        view: What to show of them.
        indent: Columns before them.
    """
    last: blocks.Block | None = None
    for block in shown:
        if isinstance(last, blocks.Bar) and not isinstance(block, blocks.Section):
            yield Text("")
        last = block
        match block:
            case blocks.Section():
                yield from _section(block, view)
            case blocks.Headline():
                yield from _headline(block)
            case blocks.Gain():
                yield Padding(_gain(block), (0, 0, 1, indent))
            case blocks.Sentence(is_alert=True):
                yield _marked(line(block.spans, f"bold {STYLES[block.tone]}"), STYLES[block.tone])
            case blocks.Card():
                yield from _card(block, view)
            case blocks.Code():
                yield Padding(_simple(block, view), (0, 0, 1, indent + 4))
            case _:
                yield Padding(_simple(block, view), (0, 0, 0, indent))


def _simple(block: blocks.Block, view: View) -> RenderableType:
    match block:
        case blocks.Sentence():
            return line(block.spans, STYLES[block.tone])
        case blocks.Bullets():
            return _grid((Text("-"), Text(one_line(item))) for item in block.items)
        case blocks.Bar():
            return _bar(block, view)
        case blocks.Table():
            return _table(block, view)
        case blocks.Facts():
            return facts(block.rows, view)
        case blocks.Code():
            return Text(plain(block.text).rstrip().expandtabs(4), "cyan", overflow="fold")
        case blocks.Checks():
            return _checks(block)
    raise TypeError(block)


def line(spans: Iterable[blocks.Span], style: str = "") -> Text:
    """Parts of a line, in one style or each in its own."""
    parts = ((together(blocks.flat(span.text)), STYLES[span.tone]) for span in spans)
    return Text.assemble(*parts, style=style)


def together(text: str) -> str:
    """A text that does not break between a number and its unit."""
    return blocks.UNIT.sub(TOGETHER, text)


def _marked(text: Text, colour: str) -> Table:
    return _grid([(Text("■", colour), text)])


def _grid(rows: Iterable[Sequence[Text]]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def _section(section: blocks.Section, view: View) -> Iterator[RenderableType]:
    if section.is_detail and not view.show_all:
        return
    if not section.title:
        yield Text("")
        yield from rendered(section.blocks, view, indent=0)
        return
    yield Text(f"\n{section.title}", "bold")
    cards = [block for block in section.blocks if isinstance(block, blocks.Card)]
    if cards:
        yield from _cards(cards, view)
        yield from rendered(section.blocks[len(cards) :], view, indent=3)
    else:
        yield from rendered(section.blocks, view)


def _headline(headline: blocks.Headline) -> Iterator[RenderableType]:
    style = f"bold {STYLES[headline.tone].removeprefix('bold ')}"
    remark = f"  ({headline.remark})" if headline.remark else ""
    text = Text.assemble((headline.word, style), (remark, "dim"))
    yield _marked(text, headline.colour)
    whole = Text(together(one_line(headline.text)), "bold")
    more = f" {together(one_line(headline.more))}" if headline.more else ""
    yield Padding(Text.assemble(whole, more), (0, 0, 1, _INDENT))


def _gain(gain: blocks.Gain) -> Text:
    after = f" → {gain.after}" if gain.after else ""
    amount = (together(f"{gain.before}{after} {gain.of}"), "bold green" if after else "bold")
    rest = "".join(f"  ·  {together(text)}" for text in (gain.rate, gain.remark) if text)
    return Text.assemble(amount, rest)


def _cards(cards: Sequence[blocks.Card], view: View) -> Iterator[RenderableType]:
    """The first findings in full, the others by title."""
    in_full = len(cards) if view.show_all else _IN_FULL
    for card in cards[:in_full]:
        if card.number > 1:
            yield Text("")
        yield from _card(card, view)
    if rest := cards[in_full:]:
        yield Text("")
        yield from (_title(card, figures(card)) for card in rest)


def _card(card: blocks.Card, view: View) -> Iterator[RenderableType]:
    yield _title(card, Text(f"({one_line(card.id)})", "dim"))
    indent = (0, 0, 0, 3)
    if card.figures:
        yield Padding(figures(card), indent)
    if card.note:
        yield Padding(Text(one_line(card.note), "dim"), indent)
    most = _FACTS_OF_FIRST if card.number == 1 else _FACTS_OF_OTHERS
    shown = card.evidence if view.show_all else card.evidence[:most]
    if shown:
        yield Padding(facts(shown, view), (1, 0, 0, 3))
    if more := len(card.evidence) - len(shown):
        yield Padding(Text(f"{more} more with --all", "dim"), indent)
    for number, block in enumerate(card.fix):
        columns = 7 if isinstance(block, blocks.Code) else 3
        yield Padding(_simple(block, view), (number == 0, 0, 0, columns))


def _title(card: blocks.Card, rest: Text) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="bold cyan")
    row.add_row(str(card.number), Text.assemble((one_line(card.title), "bold"), "  ", rest))
    return row


def figures(card: blocks.Card) -> Text:
    """What a finding costs and what fixing it should save, on a line."""
    whole = Text()
    for figure in card.figures:
        amount = (" ".join(filter(None, (figure.amount, figure.of))), STYLES[figure.tone])
        whole.append(" · " if whole else "")
        share = f", {figure.share} of it" if figure.share else ""
        whole.append(Text.assemble(f"{figure.label} ", amount, share))
    return whole


def facts(rows: Sequence[blocks.Fact], view: View) -> Table:
    """Labels and values beside each other."""
    table = Table.grid(padding=(0, 3, 0, 0))
    longest = max((len(one_line(fact.label)) for fact in rows), default=0)
    table.add_column(style="dim", width=min(longest, view.width * 2 // 5))
    table.add_column(overflow="fold")
    for fact in rows:
        for number, spans in enumerate(fact.lines):
            table.add_row(Text("" if number else one_line(fact.label)), line(spans))
    return table


def _checks(checks: blocks.Checks) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=24, overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for group in checks.groups:
        table.add_row(Text(one_line(", ".join(group.ids))), Text(one_line(group.text)))
    return table


def _table(shown: blocks.Table, view: View) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    is_text = len(shown.head) - 1 not in shown.right
    is_left_out = is_text and (view.width < _WIDE or not any(row[-1] for row in shown.rows))
    count = len(shown.head) - is_left_out
    for number, name in enumerate(shown.head[:count]):
        side: Literal["left", "right"] = "right" if number in shown.right else "left"
        table.add_column(name, justify=side, overflow="fold")
    for row in shown.rows:
        table.add_row(*(Text(one_line(cell)) for cell in row[:count]))
    return table


def _bar(bar: blocks.Bar, view: View) -> Table:
    whole = Table.grid()
    stacked = Text(no_wrap=True)
    for category, cells in picture.cells(bar.categories, view.width - _INDENT):
        style = words.CATEGORY_WORDS[category]
        stacked.append(("█" if view.has_colour else style.mark) * cells, style.colour)
    whole.add_row(stacked)
    whole.add_row("")
    whole.add_row(_legend(bar, view))
    return whole


def _legend(bar: blocks.Bar, view: View) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    cells, wall = min(max(view.width - _ROW_WITH_MEANING, 8), 24), bar.wall_ns
    for category, ns in picture.present(bar.categories):
        style = words.CATEGORY_WORDS[category]
        mark = "■" if view.has_colour else style.mark
        meaning = [Text(style.meaning, "dim")] if view.width >= _ROW_WITH_MEANING else []
        table.add_row(
            Text.assemble((mark, style.colour), f" {style.label}"),
            Text(words.format_like(ns, wall)),
            Text(words.share(ns, wall)),
            Text(tiny_bar(ns / wall, cells), style.colour),
            *meaning,
        )
    return table


def tiny_bar(fraction: float, cells: int) -> str:
    """A horizontal bar for a fraction, padded to `cells` columns, in steps of half a column."""
    full, half = divmod(max(1, round(fraction * cells * 2)), 2)
    return ("━" * full + "╸" * half).ljust(cells)
