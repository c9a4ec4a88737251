"""A comparison in Bencher Metric Format, from which Bencher draws trends and raises alerts.

Source: https://bencher.dev/docs/reference/bencher-metric-format/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.text import escape_json, visible

if TYPE_CHECKING:
    from stepwhy.result import Comparison
    from stepwhy.result.gate import Gate

# Bencher refuses longer names of benchmarks.
_LONGEST_NAME = 1024  # characters


def render(result: Comparison, gate: Gate, name: str) -> str:
    """One benchmark: the step time of B in ns, and its change relative to A in percent.

    Args:
        result: The comparison.
        gate: Not shown: Bencher has thresholds of its own.
        name: Name of the benchmark.
    """
    del gate
    measures = {"latency": _metric(result.b.step_ns, result.b.low_ns, result.b.high_ns)}
    if result.b.batch_size:
        # The longest step makes the lowest throughput.
        times_ns = result.b.step_ns, result.b.high_ns, result.b.low_ns
        measures["throughput"] = _metric(*(1e9 * result.b.batch_size / ns for ns in times_ns))
    measures["step-time-change"] = _metric(*map(_percent, (result.change, result.low, result.high)))
    benchmark = visible(name)[:_LONGEST_NAME]
    return escape_json(msgspec.json.encode({benchmark: measures}).decode()) + "\n"


def _metric(value: float | None, low: float | None, high: float | None) -> dict[str, float]:
    found = {"value": value, "lower_value": low, "upper_value": high}
    return {key: number for key, number in found.items() if number is not None}


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)
