"""Counters of a Chrome trace of one's own: which samples are kept, and what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.read.shared.nvtx import without_homes

if TYPE_CHECKING:
    from stepwhy.read.shared.chrome_samples import Samples
    from stepwhy.trace import TraceBuilder

_LARGEST = 1 << 62


def add_counters(builder: TraceBuilder, samples: Samples) -> None:
    """Append the samples, and count the records that hold none.

    Args:
        builder: The trace to append to.
        samples: The file's samples, as `whole_numbers` reads them.
    """
    samples.add_to(builder, _name)
    builder.health.events_kept += samples.kept
    builder.health.count(
        "unreadable-counter",
        "info",
        "Samples without a time, or that are no whole numbers, were left out.",
        count=samples.dropped,
        dropped=True,
    )


def whole_numbers(args: dict[str, Any] | None) -> dict[str, int]:
    """The series of a record that are whole numbers; a rounded share would be a wrong one."""
    whole = {}
    for series, value in (args or {}).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) < _LARGEST and int(value) == value:
            whole[series] = int(value)
    return whole


def _name(counter: str, series: str) -> str:
    """'memory allocated' of a counter 'memory' with a series 'allocated'."""
    name = counter if series in {"", "value", counter} else f"{counter} {series}"
    return without_homes(name.strip())
