"""Converts counted stack samples to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int
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
    called: str = ""
    loop: str = ""
    names: str = ""


class _Stretch(msgspec.Struct):
    """The samples of a period of time, and the path of the driving thread.

    Args:
        start_ns, end_ns: The period.
        samples: Counts by place.
        paths: Lines of the program on the driving thread's stack, outermost first.
        visits: Start and end in ns, and index of the path.
    """

    start_ns: Int
    end_ns: Int
    samples: list[_Sample]
    paths: list[list[str]] = []
    visits: list[tuple[Int, Int, Int]] = []


class _Stacks(msgspec.Struct):
    """stacks.json."""

    stretches: list[_Stretch]


def add_samples(data: bytes, builder: TraceBuilder) -> None:
    """Add `stacks.json` to `samples` and `visits`; a damaged file adds nothing.

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
        paths = [builder.intern("; ".join(lines)) for lines in stretch.paths]
        for start_ns, end_ns, path in stretch.visits:
            if end_ns > start_ns and 0 <= path < len(paths):
                builder.add("visits", start_ns=start_ns, end_ns=end_ns, lines=paths[path])


def _add(sample: _Sample, stretch: _Stretch, builder: TraceBuilder) -> None:
    texts = {name: getattr(sample, name) for name in ("entry", "called", "loop", "names")}
    builder.add(
        "samples",
        start_ns=stretch.start_ns,
        end_ns=stretch.end_ns,
        line=builder.intern(sample.line),
        package=builder.intern(sample.leaf),
        count=sample.count,
        role=int(SampleRole[sample.role.upper()]),
        **{name: builder.intern(text) if text else NULL for name, text in texts.items()},
    )
