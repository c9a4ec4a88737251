"""Final rendering of a report: no trailing blanks, and ASCII if needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

# Substitutes for the non-ASCII characters of the report and `units`.
_ASCII = str.maketrans("µ·■━╸▁▂▃▄▅▆▇█→", "u|#=-_..:-=+#>")
TOGETHER = "\ue000"
"""A space at which a line does not break; rich breaks lines at every other kind of space."""


class Finish:
    """Renders a report without trailing blanks, so that it is clean when copied or redirected.

    Args:
        renderable: The report.
        ascii_only: Replace other characters by one ASCII character per cell, to keep alignment.
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
        line = [
            segment._replace(text=segment.text.replace(TOGETHER, " "))
            for segment in Segment.simplify(line)
        ]
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = line[-1]._replace(text=line[-1].text.rstrip())
        if self._ascii_only:
            line = [segment._replace(text=_in_ascii(segment.text)) for segment in line]
        return line


def _in_ascii(text: str) -> str:
    translated = text.translate(_ASCII)
    if translated.isascii():
        return translated
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in translated)
