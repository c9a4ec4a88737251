"""One period in which py-spy records the stacks of a process and its children; see `stacks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwhy.record.sampling.driver_path import counted, driver_path
from stepwhy.record.sampling.py_spy import content, record

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from stepwhy.record.core.user_code import UserFiles
    from stepwhy.record.sampling.py_spy import Recording

# Rates that do not resonate with steps of a round length. A process without children is sampled
# once for both purposes, the counts and the main thread's path.
_ALONE_RATE_HZ = 97
_RATE_HZ = 141
_LOWEST_RATE_HZ = 11
# Of the main thread's path; the difference between steps that it explains is longer than a sample.
_PATH_RATE_HZ = 53
# Time from the start of its process until py-spy's clock begins: 15 to 25 ms on two cores.
_STARTS_NS = 20_000_000
_DURATION_S = 2
# py-spy takes some 7 % of a core per process at the full rate.
_PROCESSES_AT_FULL_RATE = 8
_MOST_PROCESSES = 200


@dataclass(slots=True)
class Period:
    """Running recordings, and the processes that were observed when they began.

    Args:
        path: Follows the threads of the process.
        of_all: Counts the samples of the process and its children; None if it has none.
        observed: The processes.
    """

    path: Recording
    of_all: Recording | None
    observed: frozenset[int]

    @property
    def counted(self) -> Recording:
        """The recording whose samples count."""
        return self.path if self.of_all is None else self.of_all

    @property
    def samplers(self) -> tuple[subprocess.Popen[bytes], ...]:
        """The processes that record."""
        return tuple(each.sampler for each in (self.of_all, self.path) if each is not None)

    def text(self) -> str:
        """The counted stacks, as py-spy writes them."""
        about, data = self.counted.about, content(self.counted.raw)
        if self.of_all is None:
            return counted(data, about["interval_ns"] / 1000)
        return data.decode(errors="replace")

    def close(self) -> None:
        """Forget what was recorded."""
        for each in (self.of_all, self.path):
            if each is not None:
                each.raw.close()
                each.errors.close()

    @property
    def has_ended(self) -> bool:
        """Whether all of them have ended."""
        return all(sampler.poll() is not None for sampler in self.samplers)

    def paths(self, pid: int, files: UserFiles) -> dict[str, list[Any]]:
        """The members `paths` and `visits` of what was recorded.

        Args:
            pid: The process.
            files: Tells which files are the program's.
        """
        began_ns = self.path.about["start_ns"] + _STARTS_NS
        numbers: dict[tuple[str, ...], int] = {}
        visits = [
            [
                began_ns + 1000 * start_us,
                began_ns + 1000 * end_us,
                numbers.setdefault(lines, len(numbers)),
            ]
            for start_us, end_us, lines in driver_path(content(self.path.raw), pid, files)
        ]
        return {"paths": list(numbers), "visits": visits}


def record_period(program: Path, pid: int, processes: int, observed: frozenset[int]) -> Period:
    """Start to record a process, and it and its children together.

    Args:
        program: py-spy.
        pid: The process.
        processes: Number of processes, with it.
        observed: All observed processes.
    """
    if processes == 1:
        alone = record(program, pid, _ALONE_RATE_HZ, _DURATION_S, form="chrometrace")
        return Period(alone, None, observed)
    rate_hz = _RATE_HZ
    if processes > _PROCESSES_AT_FULL_RATE:
        rate_hz = max(_LOWEST_RATE_HZ, _RATE_HZ * _PROCESSES_AT_FULL_RATE // processes)
    options = ["--subprocesses"] if processes <= _MOST_PROCESSES else []
    of_all = record(program, pid, rate_hz, _DURATION_S, *options)
    path = record(program, pid, _PATH_RATE_HZ, _DURATION_S, form="chrometrace")
    return Period(path, of_all, observed)


__all__ = ["Period", "record_period"]
