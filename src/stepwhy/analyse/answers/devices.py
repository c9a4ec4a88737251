"""The devices of a run, over the mean steady step and over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.analyse.activity.devices import copies_of, known_bytes
from stepwhy.result import Device, DeviceTotal, TraceTotals
from stepwhy.trace import NULL, Copy, DeviceKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.devices import Activity, Totals
    from stepwhy.analyse.facts import Facts
    from stepwhy.base.columns.intervals import Intervals

    Rows = NDArray[np.signedinteger[Any]]


_WORK = ("compute", "communication", "transfer")


def devices_of(facts: Facts) -> tuple[Device, ...]:
    """Every device over the mean steady step, accelerators first."""
    return tuple(_device(facts, activity) for activity in facts.activities)


def _device(facts: Facts, activity: Activity) -> Device:
    """One device over the mean steady step, on the time scale of unprofiled steps."""
    trace, steady = facts.trace, facts.steady_time
    recorded = facts.breakdown_of(activity)
    unprofiled = facts.mean_step.unprofiled(recorded)
    scale = _work_of(unprofiled) / max(_work_of(recorded), 1) if facts.observed else 1.0

    def mean(time: Intervals) -> int:
        return min(round(scale * facts.mean_ns(steady.common_ns(time))), wall)

    wall = sum(unprofiled.values())
    busy = mean(activity.busy)
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
        breakdown=unprofiled,
    )


def _work_of(breakdown: dict[str, int]) -> int:
    """Time of a step in which a device works, ns."""
    return sum(breakdown[category] for category in _WORK)


def _mean_bytes(facts: Facts, rows: Rows) -> int | None:
    total = known_bytes(facts.trace, rows)
    return None if total is None else facts.mean_ns(total)


def totals_of(facts: Facts) -> TraceTotals:
    """Totals over the whole file."""
    slices = facts.trace.slices
    span = facts.trace.last_end_ns - int(slices.start_ns.min()) if len(slices) else 0
    return TraceTotals(span, tuple(_total(t) for t in facts.totals))


def _total(totals: Totals) -> DeviceTotal:
    return DeviceTotal(**{name: getattr(totals, name) for name in DeviceTotal.__struct_fields__})
