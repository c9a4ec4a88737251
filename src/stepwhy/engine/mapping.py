"""Reduce the files of a run with an executor: processes, a cluster, or any other one."""

from __future__ import annotations

import traceback
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.errors import EngineError, InputError, LostWorkerError
from stepwhy.engine.executors.local_processes import LocalProcesses, cores
from stepwhy.engine.merging import Parts
from stepwhy.engine.reduced_files import has_reduced, part_of
from stepwhy.engine.reduction import Part
from stepwhy.engine.summaries import decode, encode
from stepwhy.read.inputs.memory import available_bytes
from stepwhy.read.inputs.places import Local
from stepwhy.read.inputs.reduced import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor, Future

    from stepwhy.engine.reduction import Work
    from stepwhy.read.inputs.places import Place

    Progress = Callable[[str, int, int], None]

# Tasks that an executor has at a time, so that few are in vain if the files are several runs.
_AT_ONCE = 64
_PER_WORKER = 2
# A worker takes 0.5 s to start. It is worth that from so many bytes on, after decompression; traces
# shrink to a fifteenth.
_LEAST_BYTES = 10_000_000
_BYTES_PER_WORKER = 60_000_000
_EXPANDS = 15
# Memory of a worker: 100 MB, and up to so many times its file after decompression.
_LEAST_MEMORY = 100_000_000
_MEMORY_TIMES = 2.5
_PACKED = frozenset({".gz", ".xz", ".bz2", ".zst", ".zip"})


def reduce_encoded(work: Work, *, is_run: bool) -> bytes:
    """The task of a worker: the encoded part that a file became.

    Args:
        work: The file.
        is_run: As in `reduce_file`.
    """
    try:
        return encode(part_of(work, is_run=is_run))
    except Exception:  # noqa: BLE001 - tells an error in here from one of the executor
        return traceback.format_exc().encode()


def reduce_with(executor: Executor, works: Sequence[Work], progress: Progress | None) -> Parts:
    """Reduce all files of a run.

    Args:
        executor: What does the tasks.
        works: The files.
        progress: As in `explain`.

    Raises:
        EngineError: The executor does no tasks any more.
    """
    parts, is_run = Parts(), True
    todo = list(reversed(works))
    waiting: dict[Future[bytes], Work] = {}
    at_once = _PER_WORKER * executor.workers if isinstance(executor, LocalProcesses) else _AT_ONCE
    while todo or waiting:
        while todo and len(waiting) < at_once:
            waiting |= {_submitted(executor, todo[-1], is_run=is_run): todo.pop()}
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            work = waiting.pop(future)
            parts.add(_part(future, work))
            if progress:
                progress(f"reduced {work.place.name}", len(parts), len(works))
            # The check takes all parts, so it is not made after each of them.
            if is_run and len(parts) & (len(parts) - 1) == 0:
                is_run = parts.may_be_run()
    return parts


def _submitted(executor: Executor, work: Work, *, is_run: bool) -> Future[bytes]:
    place = work.place
    if isinstance(place, Local):  # a worker may have another current folder
        within = place.within and place.within.absolute()
        place = replace(place, path=place.path.absolute(), within=within, named=place.shown)
    try:
        return executor.submit(reduce_encoded, replace(work, place=place), is_run=is_run)
    except RuntimeError as error:  # broken, or shut down
        raise _broken(error) from None


def _part(future: Future[bytes], work: Work) -> Part:
    """What a task has returned; what its executor lost is a file that cannot be read."""
    name = work.redactor.text(work.place.shown)
    try:
        data = future.result()
    except BrokenExecutor as error:
        raise _broken(error) from None
    except InputError as error:
        what = f"{name} was not read: {error.what}"
        return Part(work.number, error=type(error)(what, error.todo))
    except Exception as error:  # noqa: BLE001 - each executor has its own
        reason = work.redactor.text(f"{type(error).__name__}: {error}")
        what = f"{name} was not read: the executor has lost it ({reason})"
        return Part(work.number, error=LostWorkerError(what, "Explain this file alone"))
    if not data.startswith(MAGIC):
        raise RuntimeError(data.decode(errors="replace"))
    return decode(data, name)


def _broken(error: Exception) -> EngineError:
    return EngineError(
        f"the executor does no more tasks: {type(error).__name__}: {error}",
        "Start it again, or leave it out to use processes of this machine",
    )


@contextmanager
def processes_for(works: Sequence[Work]) -> Iterator[LocalProcesses | None]:
    """Processes of this machine, if these files are worth it; otherwise None.

    Args:
        works: The files.
    """
    sizes = [_bytes_of(work.place) for work in works]
    worth = sum(expanded for _, expanded in sizes) // _BYTES_PER_WORKER
    # Number of workers that memory is left for.
    left = available_bytes()
    room = (
        cores()
        if left is None
        else int(left / (_LEAST_MEMORY + _MEMORY_TIMES * max(expanded for _, expanded in sizes)))
    )
    workers = min(cores(), len(works), worth, room)
    if workers < 2 or sum(size for size, _ in sizes) < _LEAST_BYTES:
        yield None
        return
    with LocalProcesses(workers) as executor:
        yield executor


def _bytes_of(place: Place) -> tuple[int, int]:
    """Size of a file, as it is and about how large after decompression; (0, 0) if unknown.

    It is (0, 0), too, for what was reduced in place.
    """
    if not isinstance(place, Local) or place.is_folder or has_reduced(place):
        return 0, 0
    try:
        size = place.path.stat().st_size
    except OSError:  # reading it says why
        return 0, 0
    return size, size * (_EXPANDS if place.path.suffix in _PACKED else 1)
