"""Packages that only some commands need, installed with an extra such as `stepwhy[parquet]`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwhy.errors import MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import inside the block into an error that says how to install the package.

    Args:
        extra: Extra of stepwhy that installs the package.
        what: What needs it, as the start of a sentence: "Stored traces".

    Raises:
        MissingPackageError: A package is not installed.
    """
    try:
        yield
    except ImportError as error:
        package = f"the package '{error.name}'" if error.name else "packages"
        raise MissingPackageError(
            f"{what} need {package}, which cannot be imported",
            f"Run: pip install 'stepwhy[{extra}]'",
        ) from None
