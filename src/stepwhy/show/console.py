"""Rich's console and text, without markup and with visible control characters.

All output with colours or tables uses these two classes. Rich itself interprets strings as markup
in some places, drops some control characters silently, and prints the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Self

import rich.console
import rich.text

from stepwhy.base.text import block, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType
    from rich.progress import ProgressColumn
    from rich.style import Style


class Text(rich.text.Text):
    """Styled text that shows control characters other than line breaks and tabs as escapes.

    Line breaks are kept, so pass names through `stepwhy.base.text.one_line` or `visible` first.
    """

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(block(text), style, **options)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> Self:
        """Add text at the end."""
        super().append(block(text) if isinstance(text, str) else text, style)
        return self

    if TYPE_CHECKING:  # rich returns this class, but its type hint says otherwise

        @classmethod
        def assemble(cls, *parts: Any, **options: Any) -> Self:
            """Join strings, (string, style) pairs, and texts."""


class Console(rich.console.Console):
    """A console that interprets no string as markup or emoji code and highlights nothing.

    Args:
        stderr: Print to standard error instead of standard output.
        file: File to print to instead.
        options: Further arguments of rich's console.
    """

    def __init__(
        self, *, stderr: bool = False, file: IO[str] | None = None, **options: Any
    ) -> None:
        super().__init__(
            stderr=stderr, file=file, markup=False, emoji=False, highlight=False, **options
        )

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        """Convert a string to text, without interpreting markup."""
        kept = {name: options[name] for name in ("justify", "overflow") if name in options}
        return Text(text, options.get("style", ""), **kept)


def description_column(form: str = "{task.description}") -> ProgressColumn:
    """Column of a progress bar with the description of the task.

    Args:
        form: Text of the column; '{task.description}' stands for the description.
    """
    from rich.progress import TextColumn  # noqa: PLC0415 - takes 20 ms to load

    return TextColumn(form, markup=False)


@contextmanager
def progress_bar(*columns: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """Progress bar on standard error that disappears when it is done.

    Args:
        columns: Columns of the bar, from left to right.

    Yields:
        A function that updates it: (description, done, total), with None for an unknown total.
    """
    from rich.progress import Progress  # noqa: PLC0415 - takes 20 ms to load

    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=one_line(what), completed=done, total=total
        )


@contextmanager
def whole_screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Use the whole screen of a terminal, and show again at the end what was there.

    Args:
        console: The console.

    Yields:
        A function that shows something instead of what was shown.
    """
    from rich.live import Live  # noqa: PLC0415 - takes 10 ms to load

    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda view: live.update(view, refresh=True)
