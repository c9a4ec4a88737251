"""All output to the standard streams, with control characters escaped.

Plain lines are escaped by `base.text`; coloured output is printed by `show.console`.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import warnings

from stepwhy.base.text import block, utf8, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

_STDERR = 2
_WRITE_TIMEOUT_MS = 1000
_is_redacted = True


def redact(*, on: bool) -> None:
    """Set whether secrets and private facts are redacted in lines and tracebacks."""
    global _is_redacted  # noqa: PLW0603 - a fact about the streams, of which there is one each
    _is_redacted = on


def public(text: str) -> str:
    """Redact the secrets and private facts in a text, unless that is switched off."""
    if not _is_redacted:
        return text
    from stepwhy.base.redaction import Redactor  # noqa: PLC0415 - rarely needed

    return Redactor.of_process().text(text)


def line(text: str) -> None:
    """Print one line to standard error, if there is one."""
    _write_to_stderr(f"{visible(public(text))}\n")


def line_without_waiting(text: str) -> None:
    """Print one line to standard error, unless that is closed or would block.

    Nothing is buffered, because a program whose output cannot be flushed at its end has another
    exit code.
    """
    data = f"{visible(public(text))}\n".encode(errors="backslashreplace")
    try:
        ready = select.poll()
        ready.register(_STDERR, select.POLLOUT)
        while data and ready.poll(_WRITE_TIMEOUT_MS):
            # A pipe that is ready accepts this many bytes without blocking.
            data = data[os.write(_STDERR, data[: select.PIPE_BUF]) :]
    except (OSError, ValueError):
        return


def rendered(text: str) -> None:
    """Print text that another stepwhy process has rendered, with colours, to standard error."""
    _write_to_stderr(text)


def document(text: str) -> None:
    """Print a document, such as JSON, to standard output, always as UTF-8.

    Raises:
        OSError: Standard output cannot be written, for example because its reader has exited.
    """
    if sys.stdout is None:
        return
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # in a notebook, or an `io.StringIO`
        sys.stdout.write(text)
    else:
        sys.stdout.flush()
        binary.write(utf8(text))
    sys.stdout.flush()


def is_watched() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def stop() -> None:
    """Print nothing more, because the reader has exited."""
    sys.stderr.close()


def guard() -> None:
    """Escape and redact the warnings and tracebacks that Python prints."""
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
    if kind is SystemExit:  # ends a thread, not an error
        return
    import traceback  # noqa: PLC0415 - only for errors

    chunks = traceback.format_exception(kind, error, trace)
    _write_to_stderr(block(public("".join(map(_indented, chunks)))))


def _indented(chunk: str) -> str:
    """A chunk of a traceback; the further lines of an error message are indented."""
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
        _write_to_stderr(shown)
    else:
        file.write(shown)


def _write_to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # closed, gone, or never there
        return
