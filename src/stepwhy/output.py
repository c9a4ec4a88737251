"""The only way to the standard streams, so that no name can steer a terminal.

Lines for people go through `stepwhy.text`; what has colours goes through `stepwhy.report.console`.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import warnings

from stepwhy.text import block, utf8, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

_STDERR = 2
_PATIENCE_MS = 1000
_is_redacted = True


def redact(*, on: bool) -> None:
    """Choose whether lines and failures are printed without secrets and private facts."""
    global _is_redacted  # noqa: PLW0603 - a fact about the streams, of which there is one each
    _is_redacted = on


def public(text: str) -> str:
    """A text as a line of it is printed: without secrets and private facts, unless chosen so."""
    if not _is_redacted:
        return text
    from stepwhy.redaction import Redactor  # noqa: PLC0415 - few programs print any

    return Redactor.of_process().text(text)


def line(text: str) -> None:
    """Print one line to standard error; a program without one goes on."""
    _to_stderr(f"{visible(public(text))}\n")


def line_without_waiting(text: str) -> None:
    """Print one line to standard error, unless that is closed, full, or a pipe nobody reads.

    Nothing is kept for later: what Python cannot write at the end of a program would change its
    exit code.
    """
    data = f"{visible(public(text))}\n".encode(errors="backslashreplace")
    try:
        ready = select.poll()
        ready.register(_STDERR, select.POLLOUT)
        while data and ready.poll(_PATIENCE_MS):
            # So much never blocks where a pipe can be written to at all.
            data = data[os.write(_STDERR, data[: select.PIPE_BUF]) :]
    except (OSError, ValueError):
        return


def rendered(text: str) -> None:
    """Print to standard error what another process of stepwhy has rendered, colours included."""
    _to_stderr(text)


def document(text: str) -> None:
    """Print a document, such as JSON, to standard output: UTF-8, whatever the terminal expects.

    Raises:
        OSError: Standard output cannot be written, for example because its reader has ended.
    """
    if sys.stdout is None:
        return
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # a notebook's, or one that holds text
        sys.stdout.write(text)
    else:
        sys.stdout.flush()
        binary.write(utf8(text))
    sys.stdout.flush()


def is_watched() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def stop() -> None:
    """Print nothing more, because nobody reads it."""
    sys.stderr.close()


def guard() -> None:
    """Escape what Python itself prints of this process: warnings, and the traceback of a bug."""
    sys.excepthook = _show_error
    sys.unraisablehook = lambda found: _show_error(
        found.exc_type, found.exc_value, found.exc_traceback
    )
    threading.excepthook = lambda found: _show_error(
        found.exc_type, found.exc_value, found.exc_traceback
    )
    warnings.showwarning = _show_warning


def _show_error(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if kind is SystemExit:  # ends a thread, and is no error
        return
    import traceback  # noqa: PLC0415 - for bugs alone

    chunks = traceback.format_exception(kind, error, trace)
    _to_stderr(block(public("".join(map(_indented, chunks)))))


def _indented(chunk: str) -> str:
    """A chunk of a traceback, in which a message of several lines begins none at the margin."""
    if chunk.startswith((" ", "\n", "Traceback")):
        return chunk
    return chunk.rstrip("\n").replace("\n", "\n  ") + "\n"


def _show_warning(  # noqa: PLR0917 - the signature of warnings.showwarning
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    shown = block(public(warnings.formatwarning(str(message), category, filename, lineno, line)))
    if file is None:
        _to_stderr(shown)
    else:
        file.write(shown)


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # closed, gone, or never there
        return


__all__ = [
    "document",
    "guard",
    "is_watched",
    "line",
    "line_without_waiting",
    "redact",
    "rendered",
    "stop",
]
