"""The last touch before a report is printed: no trailing blanks, and ASCII where needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

# What the report itself and `units` use beyond ASCII.
_STAND_INS = str.maketrans("µ·■━╸▁▂▃▄▅▆▇█", "u|#=-_..:-=+#")


class Finish:
    """Renders without trailing blanks, which would clutter what people copy or redirect.

    Args:
        renderable: The report.
        ascii_only: Whether to put one ASCII character per cell, so that columns stay aligned.
    """

    def __init__(self, renderable: RenderableType, *, ascii_only: bool) -> None:
        self._renderable = renderable
        self._ascii_only = ascii_only

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        lines = Segment.split_lines(console.render(self._renderable, options))
        for line in lines:
            yield from self._finished(line)
            yield Segment.line()

    def _finished(self, line: list[Segment]) -> list[Segment]:
        line = list(Segment.simplify(line))
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = line[-1]._replace(text=line[-1].text.rstrip())
        if self._ascii_only:
            line = [segment._replace(text=_in_ascii(segment.text)) for segment in line]
        return line


def _in_ascii(text: str) -> str:
    translated = text.translate(_STAND_INS)
    if translated.isascii():
        return translated
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in translated)
