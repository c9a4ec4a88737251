"""Settings of PyTorch as a whole: threads, anomaly detection, the program's own profiler."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

from stepwhy.record.core.process.cores import visible_cores

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial

# Methods of a profiler that return nothing.
_PROFILING = (
    "start", "stop", "step", "export_chrome_trace", "export_stacks", "export_memory_timeline",
    "toggle_collection_dynamic", "add_metadata", "add_metadata_json", "preset_metadata_json",
)  # fmt: skip


def set_threads(torch: Any, trial: Trial) -> None:
    """Let each operation use as many threads as there are cores, or `value`.

    Not in forks, where that can wait forever for threads that exist only in the parent, nor in
    workers of a `DataLoader`, which use one thread each.
    """
    wanted = trial.spec.count(visible_cores())
    original = torch.set_num_threads
    asked = [torch.get_num_threads()]
    pid = os.getpid()

    def switch(on: bool) -> None:
        if os.getpid() == pid:
            original(wanted if on else asked[-1])

    @functools.wraps(original)
    def set_num_threads(count: int) -> None:
        original(count)
        if os.getpid() == pid and not _is_worker(sys._getframe(1).f_globals):
            asked.append(count)
            trial.guard(lambda: note(count))

    def note(before: int) -> None:
        switch(trial.on)
        if before != wanted:
            trial.changed(f"torch.set_num_threads({wanted}) instead of {before}")

    torch.set_num_threads = set_num_threads
    if asked[0] != wanted:
        trial.changed(f"torch.set_num_threads({wanted}) instead of {asked[0]}")
    switch(trial.on)
    trial.switches.append(switch)


def _is_worker(caller: dict[str, Any]) -> bool:
    """Whether this process is a worker, or becomes one in the module that calls."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and (caller is vars(worker) or worker.get_worker_info() is not None)


def detect_no_anomaly(torch: Any, trial: Trial) -> None:
    """Do not look for NaN in gradients, although the program asks for it."""
    original = torch.set_anomaly_enabled
    asked: list[tuple[bool, bool]] = [(False, True)]

    def switch(on: bool) -> None:
        mode, check_nan = asked[-1]
        original(mode and not on, check_nan)

    @functools.wraps(original)
    def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
        asked.append((mode, check_nan))
        original(mode and not trial.on, check_nan)
        if mode:
            trial.changed("torch.autograd.set_detect_anomaly: off")

    torch.set_anomaly_enabled = set_anomaly_enabled
    trial.switches.append(switch)


def profile_nothing(module: Any, trial: Trial) -> None:
    """Do not start the profiler that the program brings; it has seen no event."""
    from torch.autograd.profiler_util import EventList

    def ignore(name: str, result: Callable[[], Any]) -> None:
        original = getattr(module.profile, name, None)
        if original is None:
            return  # another version of PyTorch

        @functools.wraps(original)
        def ignored(*_: Any, **__: Any) -> Any:
            trial.changed("torch.profiler.profile: off")
            return result()

        setattr(module.profile, name, ignored)

    for name in _PROFILING:
        ignore(name, lambda: None)
    for name in ("events", "key_averages"):
        ignore(name, lambda: EventList([]))
