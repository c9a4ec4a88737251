"""From counted stack samples to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.trace import NULL, SampleRole

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder


class _Sample(msgspec.Struct):
    """How often a thread was at one line of the program, in one package."""

    line: str
    leaf: str
    count: int
    role: Literal["driver", "worker", "thread"] = "driver"
    entry: str = ""


class _Stacks(msgspec.Struct):
    """stacks.json."""

    samples: list[_Sample]


def add_samples(data: bytes, builder: TraceBuilder) -> None:
    """Add the samples of `stacks.json` to `samples`; a damaged file adds none.

    Args:
        data: The file.
        builder: Takes the rows.
    """
    try:
        stacks = msgspec.json.decode(data, type=_Stacks)
    except msgspec.DecodeError:
        return
    for sample in stacks.samples:
        if sample.count > 0:
            builder.add(
                "samples",
                line=builder.intern(sample.line),
                leaf=builder.intern(sample.leaf),
                count=sample.count,
                role=int(SampleRole[sample.role.upper()]),
                entry=builder.intern(sample.entry) if sample.entry else NULL,
            )
