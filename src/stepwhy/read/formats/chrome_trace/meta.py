"""What a Chrome trace shows of the run as a whole, and what it cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.read.formats.chrome_trace.names import is_api_call
from stepwhy.trace import Kind, Meta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepwhy.read.formats.chrome_trace.rows import Row
    from stepwhy.read.formats.chrome_trace.used_names import Uses
    from stepwhy.read.shared.chrome_json import Place

_SIGNALS = {
    "host-ops": {Kind.OP},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC},
    "python-stacks": {Kind.PYTHON},
    "input": {Kind.INPUT},
}
_NO_DEVICE = (
    "the file says how long its ranges take, but calls none of them work of a device, so what the "
    "step waits for is open. Begin with the longest of them, or record the run with 'stepwhy run' "
    "or the framework's own profiler"
)
_SEVERAL = (
    "the file holds devices of {count} processes, and does not say whether one clock timed them "
    "all, so their times cannot be laid side by side. Record one process at a time, with its host"
)


def meta_of(name: str, uses: Uses, rows: Mapping[Place, Row], kinds: set[Kind]) -> Meta:
    """Facts about the run.

    Args:
        name: Name of the format.
        uses: The names that ranges have.
        rows: The rows of these.
        kinds: Kinds of the ranges on host threads.
    """
    hosts = (use for use in uses.known if not rows[use.place].device)
    devices = {row.device for row in rows.values() if row.device}
    signals = {signal for signal, shown in _SIGNALS.items() if shown & kinds}
    if devices:
        signals.add("device-activity")
    limit = _limit(rows)
    return Meta(
        format=name,
        signals=frozenset(signals | ({"ranges"} if limit else set())),
        device_expected=bool(devices) or any(is_api_call(u.name) for u in hosts),
        limit=limit,
    )


def _limit(rows: Mapping[Place, Row]) -> str:
    """Why the file cannot show what the step waits for, '' where it can."""
    devices = {row.process for row in rows.values() if row.device}
    hosts = {row.process for row in rows.values() if not row.device}
    if not devices:
        return _NO_DEVICE
    # A host with several devices has a row of its own; ranks have one each, beside their device.
    if len(devices) > 1 and (not hosts or len(devices & hosts) > 1):
        return _SEVERAL.format(count=len(devices))
    return ""
