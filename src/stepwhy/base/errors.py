"""Errors that the user can act on.

The tree::

    StepwhyError
    ├── InputError                  exit code 3: a file or folder cannot be explained
    │   ├── NotFoundError             input-not-found
    │   ├── NotAFileError             not-a-file
    │   ├── NotServedError            not-served
    │   ├── EmptyInputError           input-empty
    │   ├── UnknownFormatError        unknown-format
    │   ├── UnsupportedFormatError    unsupported-format
    │   ├── CorruptInputError         corrupt-input
    │   ├── NoTracesError             no-traces
    │   ├── NoPlacementError          no-placement
    │   ├── SeveralRunsError          several-runs
    │   ├── NewerFormatError          newer-format
    │   ├── UnreachableError          unreachable
    │   ├── RemoteLimitError          remote-limit
    │   ├── MissingPackageError       missing-package
    │   ├── LostWorkerError           worker-lost
    │   └── TooLargeError             too-large
    ├── OutputError                 exit code 4: a result cannot be written
    ├── CaptureError                exit code 5: a command cannot be started under observation
    ├── MeasurementError            exit code 6: a program cannot be measured
    ├── EditError                   exit code 8: an edit cannot be predicted or tried
    ├── QueryError                  exit code 9: a query cannot be answered
    │   └── QueryLimitError           query-limit
    ├── ServeError                  exit code 10: pages cannot be served
    └── EngineError                 exit code 11: a cluster or executor cannot be used

Each leaf has a slug, which is the anchor of its paragraph in ``docs/reference/errors.md``. A
message says what was wrong, where, and ends with what to do next.
"""

from __future__ import annotations

from typing import ClassVar

from stepwhy.base.text import visible

# Longest sentence, in characters: a very long path or address must not hide the problem.
_LONGEST = 480


class StepwhyError(Exception):
    """Base class of all errors, with the next action for the user.

    Its text is safe to print: control characters are escaped, and the middle of a very long
    sentence is left out.

    Args:
        what: The problem and where it is, one sentence without a final full stop.
        todo: What to do next, one imperative sentence without a final full stop.
    """

    slug: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, todo: str) -> None:
        self.what, self.todo = visible(what, _LONGEST), visible(todo, _LONGEST)
        # A full stop behind a command would be copied with it.
        end = "" if self.todo.startswith("Run: ") else "."
        stop = "" if self.what.endswith(("?", "!")) else "."
        super().__init__(f"{self.what}{stop} {self.todo}{end}")


class InputError(StepwhyError):
    """An input that cannot be explained."""

    exit_code = 3


class NotFoundError(InputError):
    """A path, folder or glob that names nothing."""

    slug = "input-not-found"


class NotAFileError(InputError):
    """A device, a socket, or a pipe or link where only regular files are read."""

    slug = "not-a-file"


class NotServedError(InputError):
    """A path or address that a server may not read."""

    slug = "not-served"


class EmptyInputError(InputError):
    """An empty file, or one whose first record cannot be read."""

    slug = "input-empty"


class UnknownFormatError(InputError):
    """A file that no importer recognises by its content."""

    slug = "unknown-format"


class UnsupportedFormatError(InputError):
    """A format that is recognised but must be exported to another one first."""

    slug = "unsupported-format"


class CorruptInputError(InputError):
    """A recognised file from which nothing usable can be read."""

    slug = "corrupt-input"


class NoTracesError(InputError):
    """A folder in which nothing is a trace."""

    slug = "no-traces"


class NoPlacementError(InputError):
    """A trace that does not record on which device operations ran."""

    slug = "no-placement"


class SeveralRunsError(InputError):
    """Several files that are not ranks of one run."""

    slug = "several-runs"


class NewerFormatError(InputError):
    """A file in stepwhy's own format that a later version wrote."""

    slug = "newer-format"


class UnreachableError(InputError):
    """An address that does not answer, closes the connection early, or denies access."""

    slug = "unreachable"


class RemoteLimitError(InputError):
    """An address that exceeds a limit on what one command may read from addresses."""

    slug = "remote-limit"


class MissingPackageError(InputError):
    """A format or an address that needs an optional package."""

    slug = "missing-package"


class TooLargeError(InputError):
    """A file for which there is not enough memory or space."""

    slug = "too-large"


class LostWorkerError(InputError):
    """A file that ends the processes that read it."""

    slug = "worker-lost"


class OutputError(StepwhyError):
    """A report or store that cannot be written."""

    slug = "cannot-write"
    exit_code = 4


class CaptureError(StepwhyError):
    """A command that cannot be started under observation."""

    slug = "cannot-start"
    exit_code = 5


class MeasurementError(StepwhyError):
    """A program that fails, or runs no step that can be measured."""

    slug = "cannot-measure"
    exit_code = 6


class EditError(StepwhyError):
    """A change of the program that cannot be predicted or tried."""

    slug = "cannot-edit"
    exit_code = 8


class QueryError(StepwhyError):
    """An SQL query that is wrong, or asks for more than the tables of a run."""

    slug = "cannot-query"
    exit_code = 9


class QueryLimitError(QueryError):
    """An SQL query that needs more memory or time than it may use."""

    slug = "query-limit"


class ServeError(StepwhyError):
    """An address that cannot be listened on."""

    slug = "cannot-serve"
    exit_code = 10


class EngineError(StepwhyError):
    """A cluster or executor that cannot be used."""

    slug = "cannot-distribute"
    exit_code = 11
