"""Generate the figures of the explanations: what the engine makes of two small drawn traces."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.result import CATEGORIES
from stepwhy.show.words import CATEGORY_WORDS
from stepwhy.trace.notation import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

BREAKDOWN, STEPS = "images/breakdown-figure.svg", "images/steps-figure.svg"

_NS = 1_000_000  # per column of a drawn trace
# One step of a loop that fetches a batch, copies it, launches work and then reads the loss.
_ONE_STEP = {
    "main   input ": "ddddd                   ",
    "main   op    ": "     oooooooo           ",
    "main   launch": "      c mmmm            ",
    "main   sync  ": "              sssssssss ",
    "GPU:0   memcpy": "      hhh               ",
    "GPU:0/7 kernel": "         kkkkkkkkkkkk   ",
}
_LEGEND = {
    "main   input ": "d=batch",
    "main   op    ": "o=framework",
    "main   launch": "c=launch the copy  m=launch the kernel",
    "main   sync  ": "s=loss.item()",
    "GPU:0   memcpy": "h=copy the batch {copy: h2d; bytes: 16 MiB}",
    "GPU:0/7 kernel": "k=gemm",
}
# The host only launches, so that its steps end before their work does. The first step is slow.
_AHEAD = """
    unit: 1 ms
    framework: pytorch
    main  step   |[ProfilerStep#0------][PStep#1][PStep#2][PStep#3]                     |
    main  launch | l                     l        l        l                            |  l=launch
    GPU:0 kernel |   [gemm-------------] [gemm-----][gemm-----][gemm-----]              |
    arrows: l -> gemm
    """
_LEFT, _SCALE, _ROW, _GAP, _TOP = 142, 13, 24, 8, 14
_WORK, _WAIT = "#cbd5e1", "#f1f5f9"
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#0f172a}.l{fill:#475569}.e{text-anchor:end}"
    "line{stroke:#0f172a;stroke-width:1.2;stroke-dasharray:3 3}"
)


class _Bar(NamedTuple):
    """A bar of a row: when, ms; its text and its colour."""

    start: float
    end: float
    text: str
    colour: str = _WORK


def breakdown_figure() -> str:
    """Two steps of a loop, and the category of each of their nanoseconds."""
    # The first batch after the last step ends its last gap.
    rows = [f"{head} |{cells * 3}{cells[0]}|  {_LEGEND[head]}" for head, cells in _ONE_STEP.items()]
    step = "main   step   |" + "".join(f"[step {n}----------------]" for n in (1, 2, 3)) + " |"
    facts = Facts(parse("\n".join(["unit: 1 ms", "framework: pytorch", step, *rows])))
    end = 2 * len(_ONE_STEP["main   op    "])
    drawn = [
        ("your loop", _slices(facts, {"batch", "framework", "loss.item()"}, end)),
        ("copies", _slices(facts, {"copy the batch"}, end)),
        ("kernels", _slices(facts, {"gemm"}, end)),
        ("counted as", sorted(_categories(facts, end))),
    ]
    edges = [0, end / 2, end]
    return _figure(drawn, edges, end, _mean_step(facts, _TOP + len(drawn) * (_ROW + _GAP) + 16))


def steps_figure() -> str:
    """Steps of a host that runs ahead: as they are marked, and as they are cut."""
    facts = Facts(parse(_AHEAD))
    steps, end = facts.steps, facts.span[1] / _NS
    marked = zip(steps.host_starts / _NS, steps.host_ends / _NS, strict=True)
    cut = list(zip(steps.starts / _NS, steps.ends / _NS, strict=True))
    names = ["warm-up" if n < steps.warm_up else f"step {n}" for n in range(len(cut))]
    drawn = [
        ("marked on the host", [_Bar(a, b, f"{n}", _WAIT) for n, (a, b) in enumerate(marked)]),
        ("kernels", _slices(facts, {"gemm"}, end)),
        ("cut by stepwhy", [_Bar(a, b, n) for (a, b), n in zip(cut, names, strict=True)]),
    ]
    return _figure(drawn, [b for _, b in cut], end, [])


def _slices(facts: Facts, names: set[str], end: float) -> list[_Bar]:
    slices = facts.trace.slices
    texts = facts.trace.strings
    found = [
        _Bar(start / _NS, (start + dur) / _NS, texts[name])
        for start, dur, name in zip(slices.start_ns, slices.dur_ns, slices.name, strict=True)
        if texts[name] in names and start < end * _NS
    ]
    return sorted(found)


def _categories(facts: Facts, end: float) -> Iterable[_Bar]:
    for name in CATEGORIES:
        times, words = facts.partition.sets[name], CATEGORY_WORDS[name]
        for start, stop in zip(times.starts / _NS, times.ends / _NS, strict=True):
            if start < end:
                yield _Bar(start, min(stop, end), words.label, words.colour)


def _mean_step(facts: Facts, top: int) -> list[str]:
    """The categories of the mean step in a line, with their ms."""
    found = [(name, facts.breakdown[name] / _NS) for name in CATEGORIES if facts.breakdown[name]]
    parts, x = [f'<text class="l e" x="{_LEFT - 10}" y="{top + 13}">mean step</text>'], _LEFT
    for name, ms in found:
        words = CATEGORY_WORDS[name]
        label = f"{words.label} {ms:g} ms"
        parts.append(
            f'<rect x="{x}" y="{top + 3}" width="12" height="12" fill="{words.colour}"/>'
            f'<text x="{x + 17}" y="{top + 13}">{label}</text>'
        )
        x += 30 + round(6.5 * len(label))
    return parts


def _figure(
    rows: list[tuple[str, list[_Bar]]], edges: list[float], end: float, below: list[str]
) -> str:
    """The rows under each other, with a dashed line at each edge of a step, as SVG."""
    height = _TOP + len(rows) * (_ROW + _GAP)
    width = _LEFT + round(end * _SCALE) + 40
    whole = height + (36 if below else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}">',
        f'<style>{_STYLE}</style><rect width="{width}" height="{whole}" fill="#fff"/>',
    ]
    for number, (label, bars) in enumerate(rows):
        y = _TOP + number * (_ROW + _GAP)
        parts.append(f'<text class="l e" x="{_LEFT - 10}" y="{y + 16}">{label}</text>')
        parts += [_bar(bar, y) for bar in bars]
    for edge in np.unique(edges):
        x = _LEFT + round(edge * _SCALE)
        parts.append(f'<line x1="{x}" y1="4" x2="{x}" y2="{height}"/>')
    return "\n".join([*parts, *below, "</svg>"]) + "\n"


def _bar(bar: _Bar, y: int) -> str:
    x, width = _LEFT + round(bar.start * _SCALE), round((bar.end - bar.start) * _SCALE)
    fits = 6.6 * len(bar.text) < width
    text = f'<text x="{x + 5}" y="{y + 16}">{html.escape(bar.text)}</text>' if fits else ""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW}" fill="{bar.colour}" '
        f'stroke="#fff"><title>{html.escape(bar.text)}</title></rect>{text}'
    )
