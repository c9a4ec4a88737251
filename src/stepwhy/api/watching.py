"""Watch a training inside a program: `with stepwhy.watch() as run: ...`.

The observation itself is in `stepwhy.record.launcher.watch`. A separate process computes the
explanation, so that its libraries and memory do not stay in the training process.
"""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Self

from stepwhy.base import children, output
from stepwhy.base.regular_files import read_regular
from stepwhy.base.text import visible
from stepwhy.record.launcher.watch import WatchedBlock
from stepwhy.show.frame import framed

if TYPE_CHECKING:
    from types import TracebackType

    from stepwhy.result import Result

PAGE = "report.html"
_MOST_PAGE = 64 << 20  # bytes; a page has a few megabytes at most
_BY_KEYBOARD = 130  # exit code of a program that Ctrl-C ended, in a shell


class Watch:
    """One watched block, which shows its report in a notebook.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`.
        quiet: Print nothing.
    """

    def __init__(self, out: str | os.PathLike[str] | None, *, quiet: bool) -> None:
        self._block = WatchedBlock(Path(out) if out is not None else None)
        self._quiet = quiet
        self._explained = b""
        self._result: Result | None = None
        self._printed = 0

    def __enter__(self) -> Self:
        self._block.begin()
        self._print_messages()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        report = self._explain() if self._block.end(_exit_code(error)) else ""
        self._print_messages()
        self._print(report)

    @property
    def run_dir(self) -> Path | None:
        """The run directory, absolute; None if nothing is observed."""
        return self._block.run_dir

    @property
    def is_idle(self) -> bool:
        """Whether another observation includes the block, which then does nothing."""
        return self._block.is_idle

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages about the observation for the user, each of one or more sentences."""
        return tuple(self._block.messages)

    @property
    def result(self) -> Result | None:
        """The result; None before the end of the block, and if the run cannot be explained."""
        if self._result is None and self._explained:
            import msgspec  # noqa: PLC0415 - the training does not need it

            from stepwhy.result import Result  # noqa: PLC0415

            self._result = msgspec.json.decode(self._explained, type=Result)
        return self._result

    def _explain(self) -> str:
        """Explain the run in a child process; return the report unless the child printed it."""
        on_terminal = not self._quiet and _is_terminal()
        try:
            done = children.run(
                children.module_command("stepwhy.engine.present", str(self.run_dir)),
                variables={"PYTHONIOENCODING": _encoding()},
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=None if on_terminal else PIPE,
                check=False,
            )
        except (OSError, ValueError) as error:
            self._not_explained(str(error))
            return ""
        if done.returncode:
            self._not_explained(done.stdout.decode(errors="replace"))
            return ""
        self._explained = done.stdout
        return (done.stderr or b"").decode(_encoding(), errors="replace")

    def _not_explained(self, reason: str) -> None:
        """Add a message that there is no result, with the reason or how to find it."""
        why = reason or f"'stepwhy explain {self.run_dir}' shows the reason"
        self._block.messages.append(f"the run was not explained: {why}")

    def _print_messages(self) -> None:
        """Print messages added since the last call; none if another observation is active."""
        new, self._printed = self.messages[self._printed :], len(self.messages)
        if not self._block.is_idle:
            self._print("".join(f"stepwhy: {_shown(message)}\n" for message in new))

    def _print(self, text: str) -> None:
        """Print to standard error, if there is one."""
        if text and not self._quiet:
            output.rendered(text)

    def _repr_html_(self) -> str:
        """The report for a notebook; if there is none yet, the state and the messages."""
        try:
            page = (self.run_dir or Path()) / PAGE
            text = read_regular(page, _MOST_PAGE).decode()
            return framed(text)
        except OSError:
            state = "not explained" if self._block.is_over else "being watched"
            lines = [f"stepwhy: {state}", *self.messages]
            return "".join(f"<p>{html.escape(_shown(line))}</p>" for line in lines)


def _shown(message: str) -> str:
    """A message on one line, without secrets."""
    return visible(output.public(message))


def watch(out: str | os.PathLike[str] | None = None, *, quiet: bool = False) -> Watch:
    """Watch the training inside a `with` block, and explain it at the end.

    The training is observed as by `stepwhy run`, but not changed; code outside of the block is not
    observed. If observation is not possible, the block runs normally and `messages` says why. Under
    `stepwhy run`, and inside another watched block, this has no effect.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`.
        quiet: Print nothing; otherwise the report goes to standard error.

    Returns:
        A context manager with `result`, `run_dir` and `messages`. In a notebook it shows the
        report.
    """
    return Watch(out, quiet=quiet)


def _exit_code(error: BaseException | None) -> int:
    """Exit code of a program that ends with this exception."""
    if isinstance(error, KeyboardInterrupt):
        return _BY_KEYBOARD
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return int(error is not None)


def _is_terminal() -> bool:
    """Whether standard error is a terminal that child processes inherit."""
    try:
        return os.isatty(2) and sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False


def _encoding() -> str:
    """The encoding of standard error."""
    return getattr(sys.stderr, "encoding", None) or "utf-8"
