"""Converts counted stack samples to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.importers.formats.run_directory.records import DAMAGED, Int
from stepwhy.trace import NULL, SampleRole

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder


class _Sample(msgspec.Struct):
    """How often a thread was at one line of the program, in one package."""

    line: str
    leaf: str
    count: Int
    role: Literal["driver", "worker", "thread", "startup"] = "driver"
    entry: str = ""


class _Stretch(msgspec.Struct):
    """The samples of a period of time."""

    start_ns: Int
    end_ns: Int
    samples: list[_Sample]


class _Stacks(msgspec.Struct):
    """stacks.json."""

    stretches: list[_Stretch]


def add_samples(data: bytes, builder: TraceBuilder) -> None:
    """Add the samples of `stacks.json` to `samples`; a damaged file adds none.

    Args:
        data: The file.
        builder: Takes the rows.
    """
    try:
        stacks = msgspec.json.decode(data, type=_Stacks)
    except DAMAGED:
        return
    for stretch in stacks.stretches:
        for sample in stretch.samples:
            if sample.count > 0:
                _add(sample, stretch, builder)


def _add(sample: _Sample, stretch: _Stretch, builder: TraceBuilder) -> None:
    builder.add(
        "samples",
        start_ns=stretch.start_ns,
        end_ns=stretch.end_ns,
        line=builder.intern(sample.line),
        package=builder.intern(sample.leaf),
        count=sample.count,
        role=int(SampleRole[sample.role.upper()]),
        entry=builder.intern(sample.entry) if sample.entry else NULL,
    )
