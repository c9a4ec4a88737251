"""Present the traces of one cycle of a profiler, in a process of low priority.

The training program starts it when its profiler ends, and goes on meanwhile.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base import output
from stepwhy.base.errors import SeveralRunsError, StepwhyError
from stepwhy.base.text import visible
from stepwhy.engine.present import as_seen_from_here, show
from stepwhy.engine.reduced_files import reduce_in_place
from stepwhy.engine.timeline import explain_with_timeline
from stepwhy.read.inputs.reduced import ENDING
from stepwhy.show.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.result import Result
    from stepwhy.result.timeline import Timeline

_NICENESS = 10
# Ranks write their traces at the same step, but not all folders are shared between machines.
_LONGEST_WAIT_S = 60.0
_POLL_S = 0.5


def traces_of(
    folder: Path,
    pattern: str,
    ranks: int,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """The traces of all ranks, or those that are there after a minute.

    Args:
        folder: Where the ranks write them; they appear there when they are complete.
        pattern: Glob of the file names.
        ranks: Number of ranks.
        sleep: Waits for a time in seconds.
        clock: The time in seconds.
    """
    end = clock() + _LONGEST_WAIT_S
    while True:
        found = sorted(map(str, folder.glob(pattern)))
        if len(found) >= ranks or clock() >= end:
            return found
        sleep(_POLL_S)


def main(arguments: list[str]) -> int:
    """Explain traces: the report is printed to standard error and written as a page.

    Args:
        arguments: The folder, the glob of the file names, and the number of ranks, 0 to explain
            nothing; then the name of a trace to reduce in place before, if each rank does so.

    Returns:
        The exit code.
    """
    output.guard()
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(_NICENESS)
    folder, pattern, ranks, own = Path(arguments[0]), arguments[1], int(arguments[2]), arguments[3:]
    try:
        for name in own:
            reduce_in_place(folder / name)
        if not ranks:
            return 0
        if own:  # the others reduce their traces, too
            traces_of(folder, pattern + ENDING, ranks)
        result, timeline = _explained(traces_of(folder, pattern, 0 if own else ranks))
        shown = as_seen_from_here(folder)
        show(result, shown, Console(stderr=True), timeline, again=shown / pattern)
    except StepwhyError as error:
        output.line(f"stepwhy: {error} [{error.slug}]")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the training goes on; one line says why
        output.line(f"stepwhy: not explained: {visible(f'{type(error).__name__}: {error}')}")
        return 1
    return 0


def _explained(paths: list[str]) -> tuple[Result, Timeline]:
    """The result of all ranks; of the first one if the traces do not name their ranks."""
    try:
        return explain_with_timeline(paths)
    except SeveralRunsError:
        return explain_with_timeline(paths[:1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
