"""Formatting for people, in one place; everything inside is integer nanoseconds and bytes."""

from __future__ import annotations

import signal

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_TIME_STEPS = ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs"))
_BYTE_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _three_digits(value: float) -> str:
    """Three significant digits without an exponent: 1234.5 -> '1234', 3.14159 -> '3.14'."""
    magnitude = abs(value)
    # A value that rounds up to the next power of ten has one decimal less: 9.996 -> '10.0'.
    decimals = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2
    return f"{value:.{decimals}f}"


def format_ns(ns: float) -> str:
    """A duration in the unit that leaves one to three digits before the point: '62.4 ms'."""
    for size, unit in _TIME_STEPS:
        if abs(ns) >= 0.9995 * size:  # rounds to one of the unit
            return f"{_three_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def format_bytes(count: float) -> str:
    """A size with binary prefixes: '4.00 MiB'."""
    for size, unit in _BYTE_STEPS:
        if abs(count) >= size:
            return f"{_three_digits(count / size)} {unit}"
    return f"{count:.0f} B"


def format_fraction(fraction: float) -> str:
    """A share as a percentage: '24 %', '0.4 %' below ten, '<0.1 %' for tiny shares."""
    percent = 100 * fraction
    if 0 < abs(percent) < 0.1:
        return "<0.1 %"
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def format_rate(per_s: float) -> str:
    """A number per second, with three digits: '12,840', '36.6', '0.25'."""
    return format_count(per_s) if per_s >= 100 else _three_digits(per_s)


def format_count(count: float) -> str:
    """An integer with thousands separators: '12,840'."""
    return f"{count:,.0f}"


_SIGNAL_BASE = 128


def format_exit(code: int) -> str:
    """How a command ended, by its exit code in a shell: 'exit code 3', 'SIGSEGV'."""
    if code <= _SIGNAL_BASE:
        return f"exit code {code}"
    try:
        return signal.Signals(code - _SIGNAL_BASE).name
    except ValueError:
        return f"signal {code - _SIGNAL_BASE}"


def quantise(ns: float) -> int:
    """Round a prediction to two significant digits: more would be false precision."""
    magnitude = _last_digit(ns)
    return round(ns / magnitude) * magnitude


def quantise_within(ns: float, limit_ns: int) -> int:
    """Round a prediction to two significant digits, but not beyond a limit that it does not exceed.

    Args:
        ns: The prediction, ns; one above the limit, except by rounding, is only rounded.
        limit_ns: The limit, ns; positive.
    """
    rounded = quantise(ns)
    if limit_ns < rounded <= quantise(limit_ns):
        magnitude = _last_digit(limit_ns)
        return limit_ns // magnitude * magnitude
    return rounded


def _last_digit(ns: float) -> int:
    """Value of the second significant digit."""
    magnitude = 1
    while abs(ns) >= 100 * magnitude:
        magnitude *= 10
    return magnitude
