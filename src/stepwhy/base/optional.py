"""Packages that only some parts of stepwhy need, and how to install them if they are missing."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwhy.base.children import find_program
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
    try:
        yield
    except ImportError as error:
        raise _missing(error, what, install_command(extra)) from None


@contextmanager
def needs_package(package: str, what: str) -> Iterator[None]:
    """Like `needs_extra`, for a package that the user's program brings along.

    Args:
        package: Its name on PyPI.
        what: What needs it, as the start of a sentence: "Callbacks for Keras".

    Raises:
        MissingPackageError: It is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise _missing(error, what, f"{_pip()} install {package}") from None


def install_command(extra: str) -> str:
    """The shell command that installs an extra into this environment.

    A stepwhy from a folder, a file or a repository is installed from there again. Any other is
    named alone: pip takes the installed one, and gets what the extra needs.

    Args:
        extra: Extra of stepwhy.

    Source: PEP 610, `direct_url.json`.
    """
    origin = _origin()
    path = _local_path(str(origin.get("url", "")))
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    if path and path.exists():
        return f"{_pip()} install {option}{shlex.quote(f'{path}[{extra}]')}"
    vcs = origin.get("vcs_info", {})
    requirement = f"stepwhy[{extra}]"
    if vcs:
        requirement += f" @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}"
    return f"{_pip()} install {shlex.quote(requirement)}"


def _missing(error: ImportError, what: str, command: str) -> MissingPackageError:
    package = f"the package '{error.name}'" if error.name else "packages"
    return MissingPackageError(
        f"{what} need {package}, which cannot be imported", f"Run: {command}"
    )


def _origin() -> dict[str, Any]:
    """What pip recorded about where stepwhy came from; empty for an index."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - slow

    try:
        return dict(json.loads(distribution("stepwhy").read_text("direct_url.json") or "{}"))
    except (PackageNotFoundError, ValueError):
        return {}


def _local_path(url: str) -> Path | None:
    """The path of a file URL; None for another address."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - slow
    from urllib.request import url2pathname  # noqa: PLC0415 - slow

    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _pip() -> str:
    """How to run the pip of this environment: the shell may find another one."""
    found = find_program("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
