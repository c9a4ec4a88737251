"""Formatting for people."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.units import (
    format_bytes,
    format_count,
    format_fraction,
    format_ns,
    quantise,
    quantise_within,
)

FEW = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (12_345, "12.3 µs"),
        (62_400_000, "62.4 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (9_996_000, "10.0 ms"),
        (99_960_000, "100 ms"),
        (3_141_590_000, "3.14 s"),
        (123_456_000_000, "123 s"),
        (7_200_000_000_000, "7200 s"),
        (-62_400_000, "-62.4 ms"),
    ],
)
def test_durations(ns, expected):
    assert format_ns(ns) == expected


@FEW
@given(st.integers(1, 999_499_999_999))
def test_a_duration_has_three_digits_and_at_most_half_a_percent_of_error(ns):
    number, unit = format_ns(ns).split()
    scale = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert len(number.replace(".", "")) <= 3
    assert abs(float(number) * scale - ns) <= 0.005 * ns


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (4 << 20, "4.00 MiB"),
        (115_607_040, "110 MiB"),
        (5 << 30, "5.00 GiB"),
    ],
)
def test_sizes(count, expected):
    assert format_bytes(count) == expected


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [
        (0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.004, "0.4 %"),
        (0.0944, "9.4 %"),
        (0.0997, "10 %"),
        (0.24, "24 %"),
        (1, "100 %"),
    ],
)
def test_fractions(fraction, expected):
    assert format_fraction(fraction) == expected


def test_counts():
    assert format_count(12_840) == "12,840"


@pytest.mark.parametrize(
    ("ns", "expected"),
    [(0, 0), (7, 7), (99, 99), (104, 100), (1_264_000, 1_300_000), (-1_264, -1_300)],
)
def test_predictions_have_two_digits(ns, expected):
    assert quantise(ns) == expected


@pytest.mark.parametrize(
    ("ns", "limit_ns", "expected"),
    [
        (11_700, 11_700, 11_000),
        (12_000, 11_700, 11_000),  # rounded before
        (11_400, 11_700, 11_000),
        (9_960, 9_960, 9_900),
        (4_000, 4_000, 4_000),
        (26_000, 11_700, 26_000),  # above the limit, and not by rounding
    ],
)
def test_rounding_does_not_exceed_a_limit(ns, limit_ns, expected):
    assert quantise_within(ns, limit_ns) == expected


@FEW
@given(st.integers(-(10**15), 10**15))
def test_quantised_predictions_are_within_five_percent(ns):
    rounded = quantise(ns)
    assert len(str(abs(rounded)).rstrip("0")) <= 2
    assert abs(rounded - ns) <= 0.05 * abs(ns)
