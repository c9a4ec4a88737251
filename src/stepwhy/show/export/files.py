"""Files of exports: written completely or not at all, and compressed if their name says so."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError
from stepwhy.base.whole_files import output_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    Writable = BinaryIO | gzip.GzipFile


@contextmanager
def compressed_file(path: Path) -> Iterator[Writable]:
    """Open a file to write, compressed if its name ends in '.gz'.

    Raises:
        OutputError: If the file cannot be written.
    """
    try:
        with output_file(path) as file:
            if path.name.endswith(".gz"):
                with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=5) as compressed:
                    yield compressed
            else:
                yield file
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that you may write to and that has space",
        ) from None
