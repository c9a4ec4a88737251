"""Sample the Python stacks of the training and its workers from outside, with py-spy.

A thread of the job that reads frames needs the interpreter's lock, so it sees the driving thread
only when that has released the lock, never while it computes in Python. A watchdog without the lock
(`faulthandler`) can crash the job. py-spy reads the memory of the process from another process,
which is neither biased by the lock nor harmful. It samples the process every 10 ms, and with its
children every 7 ms, without pausing them, for two seconds at a time: first right after the traced
windows, then at intervals that double and that bound its CPU time, by 0.3 percent of a core for
each process and by one percent for all. Samples of profiled steps, which show stepwhy itself, are
left out, and a few more periods follow until two seconds of usual steps were seen (`usual_steps`).
The counts are kept in `stacks.json`::

    {"schema", "stretches": [{"start_ns", "end_ns", "interval_ns", "samples": [
        {"role": "driver", "line": "train.py(12): augment", "leaf": "numpy", "count": 40}, ...],
        "paths": [["train.py(30): main", "train.py(12): augment"], ...],
        "visits": [[start_ns, end_ns, index of the path], ...]}]}

`role` is 'driver' for the main thread, 'worker' for the main threads of child processes, 'thread'
for other threads that run code of the program, and 'startup' for the main thread before its first
step (see `startup`). `line` is the innermost line of the program's own code, `leaf` the package in
which the thread was ('' for the program itself). `entry` names the input pipeline or callback that
called the line, `called` what the line has called, `loop` and `names` what its source says of it
(`stack_lines.Place`); they are left out where they are empty. `visits` say when the main thread was
on which path, which is the lines of the program on its stack, outermost first; beside children, a
second py-spy records them at a lower rate, and start-up has none. Paths outside the program's
folder are not kept: py-spy writes to memory that both processes share.
If py-spy is missing or not permitted, there is no file.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwhy.base.regular_files import read_regular
from stepwhy.record.core.process.folder import PROCESS_FILE, append_lines, encode, write_json
from stepwhy.record.core.user_code import UserFiles
from stepwhy.record.sampling.cpu_budget import CpuBudget, children_cpu_s
from stepwhy.record.sampling.periods import record_period
from stepwhy.record.sampling.processes import PROC, Processes, observed
from stepwhy.record.sampling.py_spy import content, find_py_spy
from stepwhy.record.sampling.startup import StartupSamplers
from stepwhy.record.sampling.target import QUIET_S, Target
from stepwhy.record.sampling.usual_steps import SECONDS_BYTES, logged_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepwhy.record.sampling.periods import Period
    from stepwhy.record.sampling.stack_lines import Place, Role

STACKS_FILE = "stacks.json"
SCHEMA = "stepwhy.stacks/2"
PERMISSION = "sudo sysctl kernel.yama.ptrace_scope=0 (container: --cap-add SYS_PTRACE)"

_AT_ONCE = 2
# PyTorch's steps after a window are looked at for their lines and operations, and are no usual ones
# until the last file about them is there; where none comes, this long.
_LOOKED_AT_S = 2.0
_LAST_LOOK = "semantic.json"
# A process without windows is sampled after its first steps.
_WITHOUT_WINDOWS_S = 10.0
# A process without a framework will have no windows to wait for.
_WITHOUT_FRAMEWORK_S = 1.0
# The interval between two periods doubles, so an hour has ten.
_SHORTEST_PAUSE_S = 20.0
# Share of a core that periods take over the whole run, unless windows start them: for each process,
# which may have one core, and for all. One takes 0.07 seconds of CPU time for a process with few
# threads; two show more than one moment of a minute.
_SHARE_PER_PROCESS = 3 / 1000
_MOST_OF_A_CORE = 1 / 100
# py-spy may fail on a process that is about to end, which is gone at the next attempt.
_RETRY_S = 1.0
_MOST_FAILURES = 2
_MOST_LINES = 200
_ALWAYS = frozenset({"role", "line", "leaf"})  # keys of a sample
_MOST_ABOUT = 1 << 20  # bytes; a process.json has a few hundred
_END_S = 5.0  # py-spy ends as soon as its process is gone

_REFUSED = (
    "the kernel did not let py-spy read the stacks of the training, so no source line is named. "
    f"To permit it: {PERMISSION}"
)
_UNREADABLE = (
    "py-spy could not read the stacks of this Python, so no source line is named. Update py-spy"
)
_NONE_USUAL = (
    "stacks were sampled only while stepwhy profiled steps, so few source lines are named. Let the "
    "training run for some seconds more"
)
_MISSING = "py-spy is not installed, so no source line is named. Install it: pip install py-spy"


class StackSamplers:
    """Starts py-spy for observed processes, repeatedly at growing intervals.

    Args:
        run_dir: The run directory.
        command: The running command; the folder of its script is the program's.
        proc: Folder of the proc file system.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        run_dir: Path,
        command: Sequence[str],
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_dir = run_dir
        self._files = UserFiles(program_folder(command))
        self._program = find_py_spy()
        self._processes = Processes(proc)
        self._clock = clock
        self._targets: dict[Path, Target] = {}
        self._started = self._ended = 0
        self._budget = CpuBudget(_SHARE_PER_PROCESS)
        self._began_s = clock()
        self._parsing_s = 0.0
        self._others_s = children_cpu_s()  # of what else this process has started until now
        self._startup: StartupSamplers | None = None
        if self._program is not None:
            self._startup = StartupSamplers(
                run_dir, self._files, self._program, self._processes, clock
            )

    def tick(self) -> bool:
        """Begin periods that are due, and keep those that have ended; never raises.

        Returns:
            Whether any began or ended.
        """
        if self._program is None:
            self._report_missing()
            return False
        before = self._changes
        try:
            stepping = self._find_targets()
            self._keep_startup(stepping)
            for target in self._targets.values():
                if target.is_judged() or self._is_gone(target):
                    self._end(target)
            for target in self._targets.values():
                busy = sum(t.is_sampled for t in self._targets.values())
                if busy < _AT_ONCE and target.is_due(self._clock()):
                    self._begin(target)
        except Exception:
            return False  # a deleted folder, a full disk: try again at the next tick
        return self._changes != before

    def _report_missing(self) -> None:
        """Say once in each process that its stacks are not sampled; never raises."""
        with contextlib.suppress(OSError):  # a full disk: try again at the next tick
            for pid, folder in observed(self._run_dir).items():
                if folder not in self._targets:
                    _report(folder, "py-spy-missing", _MISSING)
                    self._targets[folder] = Target(pid, folder, None, self._clock())

    @property
    def _changes(self) -> int:
        """Number of periods that began or ended so far."""
        startup = 0 if self._startup is None else self._startup.changes
        return self._started + self._ended + startup

    def _find_targets(self) -> dict[int, Path]:
        """Find new processes and new windows; return the directories of the processes."""
        now_s = self._clock()
        found = observed(self._run_dir)
        for pid, folder in found.items():
            if folder not in self._targets:
                began = self._processes.start_ticks(pid)
                wait_s = (
                    _WITHOUT_WINDOWS_S
                    if _about(folder).get("framework", True)
                    else _WITHOUT_FRAMEWORK_S
                )
                self._targets[folder] = Target(pid, folder, began, now_s, due_s=now_s + wait_s)
            target = self._targets[folder]
            windows = sum(1 for _ in (folder / "windows").glob("[0-9]*"))
            if windows > target.windows:
                target.windows, target.grown_s = windows, now_s
            if target.windows > target.sampled_windows:
                # Whether more than the usual is still going to be noted of some steps.
                is_torch = _about(folder).get("framework") == "pytorch"
                is_looked_at = is_torch and not (folder / _LAST_LOOK).exists()
                target.quiet_s = _LOOKED_AT_S if is_looked_at else QUIET_S
        return found

    def _keep_startup(self, stepping: Mapping[int, Path], *, at_end: bool = False) -> None:
        """Sample processes before their first step, and keep the samples of those that step."""
        if self._startup is None:
            return
        before_s = children_cpu_s()
        ended = [*(self._startup.finish(stepping) if at_end else self._startup.tick(stepping))]
        self._others_s += children_cpu_s() - before_s
        for folder, about, found in ended:
            _keep(self._targets[folder], about, found, {})

    def _is_alive(self, target: Target) -> bool:
        """Whether the process still runs and its id was not reused."""
        began = self._processes.start_ticks(target.pid)
        return began is not None and began == target.began

    def _is_gone(self, target: Target) -> bool:
        """Whether a period has ended with its process."""
        has_ended = target.running is not None and target.running.has_ended
        return has_ended and not self._is_alive(target)

    def _begin(self, target: Target) -> None:
        duration_s = target.begin()
        if not self._is_alive(target):
            target.is_over = True
            return
        if self._program is None:
            return
        self._started += 1
        processes = target.processes = len(self._processes.descendants(target.pid))
        others = frozenset(t.pid for t in self._targets.values())
        target.running = record_period(self._program, target.pid, processes, others, duration_s)

    def _end(self, target: Target) -> None:
        """Count the samples of a period, or report why there are none."""
        period, now_s = target.running, self._clock()
        if period is None:
            return
        self._ended += 1
        target.running, target.ended_s = None, now_s
        target.due_s = now_s + max(_SHORTEST_PAUSE_S, now_s - target.seen_s)
        with self._parsing(), contextlib.closing(period):
            if not period.counted.sampler.returncode:
                self._count(target, period)
            elif self._is_alive(target):
                self._fail(target, content(period.counted.errors).lower())
            else:
                target.is_over = True
        # Leave a pause after which another period is within the budget.
        processes = sum(each.processes for each in self._targets.values())
        self._budget.share = min(_SHARE_PER_PROCESS * processes, _MOST_OF_A_CORE)
        self._budget.spent_s = children_cpu_s() - self._others_s + self._parsing_s
        another_s = self._budget.spent_s / self._ended
        target.due_s = max(target.due_s, self._began_s + self._budget.due_s(another_s))

    @contextlib.contextmanager
    def _parsing(self) -> Iterator[None]:
        """Count the CPU time of this thread."""
        before_s = time.thread_time()
        try:
            yield
        finally:
            self._parsing_s += time.thread_time() - before_s

    def _fail(self, target: Target, errors: bytes) -> None:
        """Report the reason of a failure, once per process."""
        target.failures += 1
        if b"permission denied" in errors or b"not permitted" in errors:
            target.is_over = True
            _report(target.folder, "stack-access", _REFUSED)
        elif target.failures >= _MOST_FAILURES:
            target.is_over = True
            _report(target.folder, "stacks-unreadable", _UNREADABLE)
        else:
            target.due_s = self._clock() + _RETRY_S

    def _count(self, target: Target, period: Period) -> None:
        """Keep the samples of the usual steps of a period."""
        steps = logged_steps(target.folder, SECONDS_BYTES)
        parts = steps.usual_parts(period.start_ns, period.end_ns)
        target.sampled_until_ns = period.end_ns
        target.has_usual |= bool(parts)
        target.usual_ns += sum(end_ns - start_ns for start_ns, end_ns in parts)
        path = period.paths(target.pid, self._files)
        for about, found in period.counts(target.pid, self._files, parts):
            if found:
                _keep(target, about, found, path)
                path = {}

    def finish(self) -> None:
        """Wait for the samplers, and keep their samples; never raises."""
        for target in self._targets.values():
            try:
                if target.running is not None:
                    for sampler in target.running.samplers:
                        sampler.wait(_END_S)
                    self._end(target)
                if target.sampled_until_ns and not target.has_usual:
                    _report(target.folder, "stacks-of-profiled-steps", _NONE_USUAL)
            except subprocess.TimeoutExpired:
                self._stop(target)
            except Exception:  # noqa: S112 - a deleted folder, a full disk
                continue
        with contextlib.suppress(Exception):
            self._keep_startup(observed(self._run_dir), at_end=True)

    def _stop(self, target: Target) -> None:
        if target.running is not None:
            for sampler in target.running.samplers:
                sampler.kill()
                sampler.wait()


def _keep(
    target: Target,
    about: Mapping[str, int],
    found: Counter[Place],
    path: Mapping[str, list[Any]],
) -> None:
    """Add the samples and the path of one period to those of a process.

    Raises:
        OSError: They cannot be written.
    """
    target.stretches.append({**about, "samples": list(_most(found)), **path})
    write_json(target.folder / STACKS_FILE, {"schema": SCHEMA, "stretches": target.stretches})


def _most(counts: Counter[Place]) -> Iterator[dict[str, Any]]:
    """The most frequent places; the others are summed by role, so that shares stay correct."""
    kept = counts.most_common(_MOST_LINES)
    for place, count in kept:
        about = place._asdict()
        yield {**{k: text for k, text in about.items() if text or k in _ALWAYS}, "count": count}
    rest: Counter[Role] = Counter()
    for place, count in (counts - Counter(dict(kept))).items():
        rest[place.role] += count
    for role, count in rest.items():
        yield {"role": role, "line": "", "leaf": "", "count": count}


def _report(folder: Path, slug: str, text: str) -> None:
    line = encode({"level": "warning", "slug": slug, "text": text})
    append_lines(folder / "messages.jsonl", [line])


def _about(folder: Path) -> dict[str, Any]:
    """What a process has noted about itself; empty if that cannot be read."""
    try:
        about = json.loads(read_regular(folder / PROCESS_FILE, _MOST_ABOUT))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def program_folder(command: Sequence[str]) -> str:
    """The folder of the script that a command runs; the current folder if it names none."""
    script = next((Path(word) for word in command if word.endswith(".py")), None)
    return str(script.resolve().parent if script is not None else Path.cwd())
