"""Several ranks of one run as one result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from stepwhy.findings import Device, DeviceTotal
from stepwhy.trace import NULL
from stepwhy.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.findings import Result
    from stepwhy.trace import Meta

D = TypeVar("D", Device, DeviceTotal)


def same_run(metas: Sequence[Meta]) -> bool:
    """Whether several traces are ranks of one run: same job size, every rank once."""
    ranks = [m.rank for m in metas]
    return (
        len(set(ranks)) == len(ranks)
        and NULL not in ranks
        and len({(m.framework, m.format, m.world_size) for m in metas}) == 1
    )


def combine(results: list[Result], metas: Sequence[Meta], notes: list[str]) -> Result:
    """One result for all ranks.

    Ranks that synchronise every step take as long as the slowest, so all that is said about the
    step is said of the slowest rank; inputs and devices are listed for every rank.

    Args:
        results: One result per rank, at least one.
        metas: Their facts about the run.
        notes: Further notes for the reader.
    """
    slowest = max(range(len(results)), key=lambda i: results[i].breakdown.wall_ns)
    chosen = results[slowest]
    if len(results) == 1:
        return replace(chosen, notes=(*chosen.notes, *notes))
    walls = sorted(r.breakdown.wall_ns for r in results)
    note = (
        f"All but the devices is of rank {metas[slowest].rank}, the slowest of {len(results)}: "
        f"{format_ns(walls[-1])} per step, the fastest {format_ns(walls[0])}."
    )
    return replace(
        chosen,
        inputs=tuple(i for r in results for i in r.inputs),
        run=replace(
            chosen.run,
            ranks=len(results),
            devices=tuple(dict.fromkeys(d for r in results for d in r.run.devices)),
        ),
        devices=_of_all([r.devices for r in results], metas),
        trace=replace(
            chosen.trace,
            span_ns=max(r.trace.span_ns for r in results),
            devices=_of_all([r.trace.devices for r in results], metas),
        ),
        notes=(note, *chosen.notes, *notes),
    )


def _of_all(devices: list[tuple[D, ...]], metas: Sequence[Meta]) -> tuple[D, ...]:
    """The devices of every rank, named after it."""
    return tuple(
        replace(device, name=f"rank {meta.rank} {device.name}")
        for mine, meta in zip(devices, metas, strict=True)
        for device in mine
    )
