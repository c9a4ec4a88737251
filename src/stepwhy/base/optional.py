"""Packages that only some parts of stepwhy need, and how to install them if they are missing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwhy.base.errors import MissingPackageError

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
    with _needs(f"'stepwhy[{extra}]'", what):
        yield


@contextmanager
def needs_package(package: str, what: str) -> Iterator[None]:
    """Like `needs_extra`, for a package that the user's program brings along.

    Args:
        package: Its name on PyPI.
        what: What needs it, as the start of a sentence: "Callbacks for Keras".

    Raises:
        MissingPackageError: It is not installed.
    """
    with _needs(package, what):
        yield


@contextmanager
def _needs(requirement: str, what: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        package = f"the package '{error.name}'" if error.name else "packages"
        raise MissingPackageError(
            f"{what} need {package}, which cannot be imported",
            f"Run: pip install {requirement}",
        ) from None
