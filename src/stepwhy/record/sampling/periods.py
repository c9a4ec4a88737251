"""One period in which py-spy records the stacks of a process and its children; see `stacks`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwhy.record.sampling.driver_path import counted, driver_path
from stepwhy.record.sampling.py_spy import content, record
from stepwhy.record.sampling.stack_lines import count_samples

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stepwhy.record.core.user_code import UserFiles
    from stepwhy.record.sampling.py_spy import Recording
    from stepwhy.record.sampling.stack_lines import Place

# Rates that do not resonate with steps of a round length. A process without children is sampled
# once for both purposes, the counts and the main thread's path.
_ALONE_RATE_HZ = 97
_RATE_HZ = 141
_LOWEST_RATE_HZ = 11
# Of the main thread's path; the difference between steps that it explains is longer than a sample.
_PATH_RATE_HZ = 53
# Time from the start of its process until py-spy's clock begins: 15 to 25 ms on two cores.
_STARTS_NS = 20_000_000
DURATION_S = 2
"""How long a period lasts, unless it adds to an earlier one."""
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
        duration_s: How long it lasts, if the process does.
    """

    path: Recording
    of_all: Recording | None
    observed: frozenset[int]
    duration_s: int = DURATION_S

    @property
    def counted(self) -> Recording:
        """The recording whose samples count."""
        return self.path if self.of_all is None else self.of_all

    @property
    def samplers(self) -> tuple[subprocess.Popen[bytes], ...]:
        """The processes that record."""
        return tuple(each.sampler for each in (self.of_all, self.path) if each is not None)

    @property
    def start_ns(self) -> int:
        """When its first sample was taken, or so."""
        return self.path.about["start_ns"] + _STARTS_NS

    @property
    def end_ns(self) -> int:
        """When its last one was, or would have been."""
        return self.start_ns + self.duration_s * 1_000_000_000

    def counts(
        self, pid: int, files: UserFiles, parts: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[dict[str, int], Counter[Place]]]:
        """The samples of the usual steps, part by part.

        stepwhy works in the threads of the process, not in its children: where children were
        recorded without times, all of their samples count.

        Args:
            pid: The process.
            files: Tells which files are the program's.
            parts: Start and end of each part, as `LoggedSteps.usual_parts` returns them.

        Yields:
            Times and samples.
        """
        interval_ns = self.counted.about["interval_ns"]
        is_whole = list(parts) == [(self.start_ns, self.end_ns)]
        if self.of_all is not None:
            text = content(self.of_all.raw).decode(errors="replace")
            found = count_samples(text, pid, files, self.observed)
            if not is_whole:
                found = Counter({place: n for place, n in found.items() if place.role == "worker"})
            yield _about(self.start_ns, self.end_ns, interval_ns), found
        if self.of_all is None or not is_whole:
            data = content(self.path.raw)
            for start_ns, end_ns in parts:
                within_us = (start_ns - self.start_ns) / 1000, (end_ns - self.start_ns) / 1000
                text = counted(data, interval_ns / 1000, None if is_whole else within_us)
                found = count_samples(text, pid, files, self.observed)
                yield _about(start_ns, end_ns, interval_ns), found

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
        began_ns = self.start_ns
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


def _about(start_ns: int, end_ns: int, interval_ns: int) -> dict[str, int]:
    return {"start_ns": start_ns, "end_ns": end_ns, "interval_ns": interval_ns}


def record_period(
    program: Path,
    pid: int,
    processes: int,
    observed: frozenset[int],
    duration_s: int = DURATION_S,
) -> Period:
    """Start to record a process, and it and its children together.

    Args:
        program: py-spy.
        pid: The process.
        processes: Number of processes, with it.
        observed: All observed processes.
        duration_s: How long.
    """
    if processes == 1:
        alone = record(program, pid, _ALONE_RATE_HZ, duration_s, form="chrometrace")
        return Period(alone, None, observed, duration_s)
    rate_hz = _RATE_HZ
    if processes > _PROCESSES_AT_FULL_RATE:
        rate_hz = max(_LOWEST_RATE_HZ, _RATE_HZ * _PROCESSES_AT_FULL_RATE // processes)
    options = ["--subprocesses"] if processes <= _MOST_PROCESSES else []
    of_all = record(program, pid, rate_hz, duration_s, *options)
    path = record(program, pid, _PATH_RATE_HZ, duration_s, form="chrometrace")
    return Period(path, of_all, observed, duration_s)
