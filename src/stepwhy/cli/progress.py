"""Progress bar on standard error, if it is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Smaller inputs are explained too quickly for a bar.
_WORTH_SHOWING_BYTES = 4_000_000


@contextmanager
def progress(paths: Sequence[str]) -> Iterator[Callable[[str, int, int], None] | None]:
    """Progress bar for large inputs; None for small ones or if there is no terminal."""
    if not output.is_watched() or _size(paths) < _WORTH_SHOWING_BYTES:
        yield None
        return
    from rich.progress import BarColumn, SpinnerColumn, TimeElapsedColumn

    from stepwhy.show.console import description_column, progress_bar

    columns = (SpinnerColumn(), description_column(), BarColumn(), TimeElapsedColumn())
    with progress_bar(*columns) as update:
        yield lambda text, done, total: update(text, done, total if total > 1 else None)


def _size(paths: Sequence[str]) -> int:
    """Total size of the inputs; a folder or a pattern counts as large."""
    total = 0
    for path in map(Path, paths):
        try:
            total += path.stat().st_size if path.is_file() else _WORTH_SHOWING_BYTES
        except OSError:
            continue
    return total
