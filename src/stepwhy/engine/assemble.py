"""From facts to the result contract."""

from __future__ import annotations

from collections import Counter
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.columns.groups import numbered
from stepwhy.columns.memory import give_back
from stepwhy.columns.sums import LARGEST, sums_of
from stepwhy.diagnoses import run_all
from stepwhy.engine.host_notes import host_notes
from stepwhy.engine.placement import bounded, placement_of
from stepwhy.engine.step_summary import note_of_changes, steady_span, summarise_steps
from stepwhy.findings import (
    Breakdown,
    Device,
    DeviceTotal,
    Finding,
    HealthEntry,
    Input,
    Op,
    Result,
    Run,
    TraceTotals,
    Verdict,
)
from stepwhy.passes.devices import MOST_DEVICES, Totals, copies_of, known_bytes
from stepwhy.passes.events import find_events
from stepwhy.passes.gpu_load import framework_devices
from stepwhy.passes.host_load import host_load
from stepwhy.passes.memory import memory_uses
from stepwhy.passes.parallel import parallel_use
from stepwhy.passes.pipelines import find_pipelines
from stepwhy.passes.sampled_lines import python_lines
from stepwhy.passes.selection import of_threads, rows_of
from stepwhy.passes.verdict import decide
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Phase, among
from stepwhy.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.columns.intervals import Intervals
    from stepwhy.passes.devices import Activity
    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Trace

    Rows = NDArray[np.signedinteger[Any]]

# Rows of the op table per device: beyond these, an op takes no time worth reading.
_OPS_PER_DEVICE = 100
# Operations that a sentence names, and letters of each.
_NAMED = 3
_LONGEST_NAME = 60
# A line with a smaller share of the samples is one of many.
_HOT = 0.1


def assemble(facts: Facts, path: str, format_name: str) -> Result:
    """The result of one trace.

    Args:
        facts: Its facts.
        path: Where it came from, as the user named it.
        format_name: Name of its format.
    """
    give_back()  # what reading left behind
    _count_together(facts.trace)
    findings = run_all(facts)
    verdict = decide(facts)
    ops = _ops(facts)
    devices = tuple(_device(facts, activity) for activity in facts.activities)
    return Result(
        verdict=_with_cause(verdict, findings),
        inputs=(_input(facts.trace, path, format_name),),
        run=_run(facts.trace),
        steps=summarise_steps(facts),
        breakdown=_breakdown(facts),
        devices=devices,
        parallel=None if verdict.bound_by == "unknown" else parallel_use(devices, facts.wall_ns),
        trace=_totals(facts),
        ops=ops,
        findings=findings,
        stepwhy=__version__,
        notes=_notes(facts, ops),
        host=host_load(facts.sampled),
        events=find_events(facts.trace),
        pipelines=find_pipelines(facts.trace, steady_span(facts)),
        placement=bounded(placement_of(facts)),
        memory=facts.derived(memory_uses),
    )


def _count_together(trace: Trace) -> None:
    """Count the devices that results show as one."""
    if not trace.health.has("devices-together"):
        trace.health.count(
            "devices-together",
            "warning",
            f"Only the first {MOST_DEVICES:,} devices are listed separately. The others are "
            "combined into one device, and still count in the step and its categories.",
            count=max(len(trace.devices) - MOST_DEVICES, 0),
            dropped=False,
        )


# The findings that only repeat in detail what the verdict says.
_SAME = {
    "input": {"input-bound"},
    "host": {"launch-bound", "host-sync", "session-overhead", "wall-device-gap"},
    "communication": {"exposed-communication"},
    "transfer": {"exposed-transfer"},
    "startup": {"warmup-included"},
}


def _with_cause(verdict: Verdict, findings: tuple[Finding, ...]) -> Verdict:
    """The breakdown shows the symptom; where the costliest finding is another, it is named."""
    first = findings[0]
    named = first.verdict == "found" and bool(first.cost_ns_per_step)
    if verdict.bound_by == "unknown" or not named or first.id in _SAME.get(verdict.bound_by, ()):
        return verdict
    return replace(verdict, sentence=f"{verdict.sentence} Fix first: {_lower(first.title)}.")


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _input(trace: Trace, path: str, format_name: str) -> Input:
    health = trace.health
    entries = tuple(
        HealthEntry(c.counter, c.severity, c.count, c.help, c.dropped) for c in health.counters
    )
    return Input(path, format_name, health.events_read, health.events_kept, entries)


def _run(trace: Trace) -> Run:
    meta = trace.meta
    # A GPU that only the driver named is one of these again, unless no profiler saw any.
    rows = framework_devices(trace) or range(len(trace.devices))
    models = [trace.string(int(m)) for m in trace.devices.model[rows] if m != NULL]
    names = [trace.string(int(n)) for n in trace.devices.name[rows]]
    return Run(
        framework=meta.framework,
        framework_version=meta.framework_version,
        devices=tuple(models or names),
        ranks=1,
        world_size=None if meta.world_size == NULL else meta.world_size,
        command=meta.command,
        exit_code=meta.exit_code,
        exception=meta.exception,
        ending=meta.ending,
        untraced_advice=meta.untraced_advice,
    )


def _breakdown(facts: Facts) -> Breakdown:
    return Breakdown(facts.wall_ns, facts.breakdown, _phases(facts), _hottest_line(facts))


def _phases(facts: Facts) -> dict[str, int]:
    """Compute time per phase; kernels that overlap count in each of their phases."""
    sums: Counter[int] = Counter()
    for activity in facts.leading:
        rows = _computing(facts, activity)
        phases, group = numbered(facts.phases[rows])
        times = sums_of(facts.nesting.self_ns[rows], group, len(phases))
        sums.update(dict(zip(phases.tolist(), times.tolist(), strict=True)))
    return {
        Phase(phase).name.lower(): facts.mean_ns(min(sums[phase], LARGEST))
        for phase in sorted(sums)
    }


def _computing(facts: Facts, activity: Activity) -> Rows:
    """What a device computes in steady steps; rows of slices."""
    slices, rows = facts.trace.slices, facts.in_steady(activity.rows)
    computes = among(slices.kind[rows], (Kind.KERNEL, Kind.MEMSET, Kind.OP))
    computes |= slices.copy[rows] == Copy.D2D
    return rows[computes]


def _hottest_line(facts: Facts) -> str:
    """Source line with most self time of user Python on the driving threads in steady steps."""
    trace = facts.trace
    if trace.meta.limit:
        return ""  # what it holds up is not known
    sums = _times_of_lines(facts)
    if not sums:
        sampled = python_lines(facts.sampled)
        return sampled[0][0] if sampled and sampled[0][1] >= _HOT else ""
    return trace.string(max(sums, key=lambda line: (sums[line], -line)))


def _times_of_lines(facts: Facts) -> dict[int, int]:
    """Self time of user Python on the driving threads in steady steps, by line, ns."""
    trace = facts.trace
    rows = rows_of(trace, (Kind.PYTHON, Kind.INPUT), of_threads(trace, facts.threads.all))
    rows = facts.in_steady(rows[trace.slices.source[rows] != NULL])
    lines, group = numbered(trace.slices.source[rows])
    times = sums_of(facts.nesting.self_ns[rows], group, len(lines)) if len(rows) else rows
    return dict(zip(lines.tolist(), times.tolist(), strict=True))


def _device(facts: Facts, activity: Activity) -> Device:
    """One device over the mean steady step, on the time scale of unprofiled steps."""
    trace, steady = facts.trace, facts.steady_time

    def mean(time: Intervals) -> int:
        return facts.mean_ns(steady.common_ns(time))

    busy, wall = mean(activity.busy), facts.mean_ns(steady.total_ns)
    exposed = activity.communication - activity.compute
    copies = [copies_of(trace, activity.rows, way) for way in (Copy.H2D, Copy.D2H)]
    h2d, d2h = map(facts.in_steady, copies)
    model = int(trace.devices.model[activity.index]) if activity.index >= 0 else NULL
    return Device(
        name=activity.name,
        kind=DeviceKind(activity.kind).name.lower(),
        busy_ns=busy,
        busy_fraction=round(busy / wall, 4) if wall else 0.0,
        compute_ns=mean(activity.compute),
        communication_ns=mean(activity.communication),
        exposed_communication_ns=mean(exposed),
        transfer_ns=mean(activity.transfer),
        h2d_bytes=_mean_bytes(facts, h2d),
        d2h_bytes=_mean_bytes(facts, d2h),
        model=trace.string(model),
        breakdown=facts.unprofiled(facts.breakdown_of(activity)),
    )


def _mean_bytes(facts: Facts, rows: Rows) -> int | None:
    total = known_bytes(facts.trace, rows)
    return None if total is None else facts.mean_ns(total)


def _totals(facts: Facts) -> TraceTotals:
    slices = facts.trace.slices
    span = facts.trace.last_end_ns - int(slices.start_ns.min()) if len(slices) else 0
    return TraceTotals(span, tuple(_total(t) for t in facts.totals))


def _total(totals: Totals) -> DeviceTotal:
    return DeviceTotal(**{name: getattr(totals, name) for name in DeviceTotal.__struct_fields__})


def _ops(facts: Facts) -> tuple[Op, ...]:
    return tuple(
        Op(
            name=row.name,
            device=row.device,
            phase=row.phase.name.lower(),
            count=round(row.count / max(facts.steady_count, 1), 2),
            total_ns=facts.mean_ns(row.total_ns),
            self_ns=facts.mean_ns(row.self_ns),
            bytes=None if row.bytes is None else facts.mean_ns(row.bytes),
        )
        for row in facts.ops.largest(_OPS_PER_DEVICE)
    )


def _longest(facts: Facts) -> tuple[str, ...]:
    """Where to begin in a record that explains nothing: what takes longest in it."""
    first = facts.ops.largest(_NAMED)[:_NAMED] if facts.trace.meta.limit else ()
    if not first:
        return ()
    named = ", ".join(
        f"'{shorten(row.name, _LONGEST_NAME, placeholder='...')}' "
        f"{format_ns(facts.mean_ns(row.self_ns))}"
        + (f" on {row.device}" if row.device != "host" else "")
        for row in first
    )
    when = "in all" if facts.steps.source == "whole-trace" else "per step"
    return (f"Longest {when}, excluding nested operations: {named}.",)


def _notes(facts: Facts, ops: Sequence[Op]) -> tuple[str, ...]:
    left_out = len(facts.ops) - len(ops)
    told = host_notes(host_load(facts.sampled))
    notes = (*note_of_changes(facts), *_longest(facts), *facts.trace.meta.notes, *told)
    if left_out > 0:
        notes = (*notes, f"The op table omits the {left_out} rows with the least time.")
    return notes
