"""Rich's console and text, in which no text is markup and none holds control characters.

Everything that is printed with colours or as a table is made of these two: rich takes a string for
markup in some places, drops some control characters silently, and passes on the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Self

import rich.console
import rich.text

from stepwhy.text import block, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import ProgressColumn
    from rich.style import Style


class Text(rich.text.Text):
    """Styled text whose control characters, other than line breaks and tabs, are visible.

    Names in it go through `stepwhy.text.one_line` or `visible` first: here, breaks are kept.
    """

    def __init__(self, text: str = "", style: str | Style = "", **options: Any) -> None:
        super().__init__(block(text), style, **options)

    def append(self, text: rich.text.Text | str, style: str | Style | None = None) -> Self:
        """Add text at the end."""
        super().append(block(text) if isinstance(text, str) else text, style)
        return self

    if TYPE_CHECKING:  # rich makes one of this class, and does not say so

        @classmethod
        def assemble(cls, *parts: Any, **options: Any) -> Self:
            """Join strings, pairs of a string and its style, and texts."""


class Console(rich.console.Console):
    """A console that takes no string for markup, an emoji code, or something to highlight.

    Args:
        stderr: Print to standard error, not standard output.
        file: Where to print instead.
        options: Further arguments of rich's console.
    """

    def __init__(
        self, *, stderr: bool = False, file: IO[str] | None = None, **options: Any
    ) -> None:
        super().__init__(
            stderr=stderr, file=file, markup=False, emoji=False, highlight=False, **options
        )

    def render_str(self, text: str, **options: Any) -> rich.text.Text:
        """A string as text, never as markup."""
        kept = {name: options[name] for name in ("justify", "overflow") if name in options}
        return Text(text, options.get("style", ""), **kept)


def description_column(form: str = "{task.description}") -> ProgressColumn:
    """The column of a progress bar that says what is done.

    Args:
        form: Its text, with '{task.description}' for what is done.
    """
    from rich.progress import TextColumn  # noqa: PLC0415 - takes 20 ms to load

    return TextColumn(form, markup=False)


@contextmanager
def progress_bar(*columns: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on standard error that vanishes when it is done.

    Args:
        columns: What it is made of, from the left.

    Yields:
        A function of (what is done, how much is done, how much in all; None where unknown).
    """
    from rich.progress import Progress  # noqa: PLC0415 - takes 20 ms to load

    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=one_line(what), completed=done, total=total
        )


__all__ = ["Console", "Text", "description_column", "progress_bar"]
