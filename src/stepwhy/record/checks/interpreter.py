"""Check whether the observer can attach to the Python that will run, by trying it in a child."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stepwhy.base import units
from stepwhy.base.redaction.commands import shorten_path
from stepwhy.record.checks.item import Item
from stepwhy.record.core.registry import ATTACHED_FILE
from stepwhy.record.launcher.run_directory import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.record.checks.target import Target

_PROBE = Path(__file__).with_name("probe.py")
_BOOTSTRAP = "record/bootstrap/"
# An interpreter starts in 0.02 to 0.3 s, or in one or two seconds from a slow network disk.
_PATIENCE_S = 5.0
# Oldest version that the observer supports.
_OLDEST = (3, 11)


@dataclass(frozen=True, slots=True)
class Answer:
    """Report of the interpreter about itself.

    Args:
        about: Output of `probe`; empty if there was none.
        attached_ns: From its start until the observer registered; None if it never did.
        failure: Why there was no output, a phrase; empty if there was.
    """

    about: dict[str, Any] = field(default_factory=dict)
    attached_ns: int | None = None
    failure: str = ""


class Probe:
    """The interpreter of a target, started with the observer in place; a context manager.

    Args:
        target: Names the interpreter and its options.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="stepwhy-check-")
        self._marker = Path(self._folder.name) / ATTACHED_FILE
        self._child: subprocess.Popen[str] | None = None
        self._failure = ""
        self._started_ns = 0

    def __enter__(self) -> Self:
        self._marker.touch()
        self._started_ns = time.time_ns()  # the clock of the marker's time stamp
        try:
            self._child = subprocess.Popen(  # noqa: S603
                [str(self._target.interpreter), *self._target.flags, str(_PROBE)],
                env=environment(Path(self._folder.name)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError) as error:
            self._failure = f"it cannot be started: {getattr(error, 'strerror', None) or error}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()  # harmless once it has ended
            self._child.communicate()
        self._folder.cleanup()

    def answer(self) -> Answer:
        """Wait for the interpreter to end, and read its output."""
        if self._child is None:
            return Answer(failure=self._failure)
        try:
            output, _ = self._child.communicate(timeout=_PATIENCE_S)
            about = json.loads(output.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return Answer(failure=f"it did not answer within {_PATIENCE_S:.0f} s")
        except (ValueError, IndexError):
            return Answer(failure=f"it ended with exit code {self._child.returncode}")
        marker = self._marker.stat()
        # File systems stamp with the time of the last kernel tick, which can lie before the start.
        attached_ns = max(0, marker.st_mtime_ns - self._started_ns) if marker.st_size else None
        return Answer(about, attached_ns)


def command_items(target: Target) -> Iterator[Item]:
    """Problems of the command itself."""
    if not target.exists:
        yield Item(
            "command",
            "missing",
            f"there is no program {shorten_path(target.command[0])} on the path",
            "nothing can be started",
            "Check its spelling, or activate the environment that holds it",
            need="must",
        )
    if target.script is not None and not Path(target.script).is_file():
        yield Item(
            "script",
            "missing",
            f"there is no file {shorten_path(target.script)}",
            "nothing can be trained",
            "Check the spelling and the current folder",
            need="must",
        )


def hidden_items(target: Target) -> Iterator[Item]:
    """The outcome if the command does not show which Python it starts."""
    yield from command_items(target)
    if not target.exists:
        return
    yield Item(
        "attach",
        "limited",
        "the command does not show which Python it starts",
        "whether it can be observed is unknown until it runs",
        "Check the training's own command: stepwhy check -- python train.py",
        need="any",
    )


def items(target: Target, answer: Answer) -> Iterator[Item]:
    """Items for what the interpreter's answer means for the observation.

    Args:
        target: What was started.
        answer: What it reported.
    """
    shown = shorten_path(str(target.interpreter))
    if answer.failure:
        yield _unanswered(shown, answer.failure)
        return
    version = answer.about["version"]
    yield _python(shown, version)
    if tuple(version[:2]) >= _OLDEST:
        yield _attach(target, answer)
    yield from _start_up(answer.about)


def _unanswered(shown: str, failure: str) -> Item:
    return Item(
        "python",
        "missing",
        f"{shown} was started, but {failure}",
        "what it can run is unknown, and nothing is observed",
        "Start it manually and read its output",
        need="must",
    )


def _python(shown: str, version: list[int]) -> Item:
    """Whether the observer runs in this version."""
    number = ".".join(map(str, version))
    if tuple(version[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return Item(
            "python",
            "missing",
            f"Python {number}, {shown}, is too old",
            f"the observer needs {oldest} or later, and is not loaded",
            f"Train with Python {oldest} or later",
            need="must",
        )
    return Item(
        "python", "ok", f"{number}, {shown}", "the observer runs in this version", need="must"
    )


def _attach(target: Target, answer: Answer) -> Item:
    """Whether the observer registered."""
    if answer.attached_ns is None or answer.about["awaited"] is None:
        found, todo = _reason(answer.about)
        return Item("attach", "missing", found, "the observer is never loaded", todo, need="must")
    found = f"observer loaded in a child after {units.format_ns(answer.attached_ns)}"
    if target.wrapper:
        return Item(
            "attach",
            "limited",
            f"{found}; but {target.wrapper} starts it",
            "it may start another Python, with another environment or on another machine",
            "Make sure that it passes on PYTHONPATH and STEPWHY_RUN_DIR",
            need="must",
        )
    return Item("attach", "ok", found, "the training will be observed in the same way", need="must")


def _reason(about: dict[str, Any]) -> tuple[str, str]:
    """Why the observer was not loaded, and what to do."""
    start = "Start the training with a Python that reads PYTHONPATH:"
    if about["isolated"]:
        return "Python is started with -I (isolated)", f"{start} without -I"
    if about["ignores_environment"]:
        return "Python is started with -E (ignores the environment)", f"{start} without -E"
    if about["no_site"]:
        return "Python is started with -S (no site)", f"{start} without -S"
    return (
        "the observer did not register",
        "Look for a sitecustomize or a .pth file that resets sys.path",
    )


def _start_up(about: dict[str, Any]) -> Iterator[Item]:
    """Other things that happen when this Python starts."""
    site = about["sitecustomize"]
    if site and _BOOTSTRAP not in site:
        yield Item(
            "sitecustomize",
            "ok",
            f"there is one: {shorten_path(site)}",
            "it is loaded as usual, after the observer",
        )
    if about["no_user_site"] and not about["isolated"]:
        yield Item(
            "user-site",
            "limited",
            "packages installed with 'pip install --user' are hidden",
            "a framework that is installed there cannot be imported",
            "Unset PYTHONNOUSERSITE, or drop -s, if the training needs them",
        )
