"""How busy the machine was while a captured run was observed.

A step that waits for a CPU core is slow for a reason outside the program, and a comparison of two
such runs is meaningless. The kernel counts how long a process was ready to run but had no core and,
if configured, how long it was blocked on a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.analyse.answers.gpu_load import gpu_loads
from stepwhy.analyse.answers.hot_lines import hot_lines
from stepwhy.analyse.steps.cores import background_cores, run_delay_share, runnable_threads
from stepwhy.analyse.steps.counters import series
from stepwhy.result import HostLoad

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace


def described_load(facts: Facts) -> HostLoad | None:
    """The load of the machine, with the use of its cores during the described steps.

    That of the whole run is no evidence of how reliable these are, where the step time changed.
    """
    load, observed = host_load(facts.sampled), facts.observed
    if load is None or observed is None or len(facts.regimes.all) == 1:
        return load
    trace, span_ns = facts.trace, observed.steady_span_ns
    waited, others = run_delay_share(trace, span_ns), background_cores(trace, span_ns)
    if waited is None or others is None:
        return load
    threads = _rounded(runnable_threads(trace, span_ns))
    return replace(load, run_delay_share=waited, background_cores=others, runnable_threads=threads)


def host_load(trace: Trace) -> HostLoad | None:
    """The load of the machine, None if nothing was sampled."""
    load = HostLoad(
        run_delay_share=run_delay_share(trace),
        background_cores=background_cores(trace),
        cores=series(trace, "cores").last,
        peak_resident_bytes=series(trace, "resident_bytes").largest,
        disk_wait_share=_rounded(series(trace, "disk_wait_ns").share_of_time),
        disk_read_bytes=series(trace, "disk_read_bytes").growth,
        disk_written_bytes=series(trace, "disk_written_bytes").growth,
        machine_disk_stall_share=_rounded(series(trace, "machine_disk_stall_ns").share_of_time),
        gpus=gpu_loads(trace),
        lines=hot_lines(trace),
        runnable_threads=_rounded(runnable_threads(trace)),
    )
    was_sampled = series(trace, "cpu_ns").growth is not None
    return load if was_sampled or load != _NOTHING else None


_NOTHING = HostLoad(None, None, None, None)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)
