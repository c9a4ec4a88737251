"""Sums are capped instead of overflowing."""

import msgspec
import numpy as np
import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns import chunks, sums
from stepwhy.base.columns.sums import LARGEST, counts_of, sums_of, total_of
from stepwhy.engine.assemble import assemble
from stepwhy.trace import Kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0),
        ([2**53 + 1, 1], 2**53 + 2),
        ([2**62 - 1, 1], 2**62),
        ([2**62, 2**62 - 1], 2**63 - 1),
        ([2**62] * 5, 2**63 - 1),
    ],
)
def test_total_is_exact_or_capped(values, expected):
    assert total_of(np.asarray(values, dtype=np.int64)) == expected


@pytest.mark.parametrize(
    ("values", "rows", "expected"),
    [([5, 7, 11], [0, 2], 16), ([5], [], 0), ([LARGEST, 3], [0, 0, 1], LARGEST)],
)
def test_a_total_of_some_rows(values, rows, expected):
    values, rows = np.asarray(values, dtype=np.int64), np.asarray(rows, dtype=np.int32)
    assert total_of(values, rows) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], [0, 0]),
        ([5, 7, 1], [6, 7]),
        ([2**53 - 1, 3, 2**53], [2**54 - 1, 3]),
        ([2**62, 3, 2**62 - 1], [2**63 - 1, 3]),
        ([2**62, 3, 2**62], [2**63 - 1, 3]),
    ],
)
def test_group_sums_are_exact_or_capped(values, expected):
    group = np.asarray([0, 1, 0][: len(values)], dtype=np.int64)
    sums = sums_of(np.asarray(values, dtype=np.int64), group, 2)
    assert (sums.tolist(), sums.dtype) == (expected, np.int64)


@pytest.mark.parametrize("large", [0, 2**53, 2**62])
def test_sums_and_counts_in_chunks_equal_those_at_once(monkeypatch, large):
    monkeypatch.setattr(chunks, "CHUNK", 2)
    monkeypatch.setattr(sums, "CHUNK", 2)
    values, group = np.asarray([1, 2, 4, 8, large]), np.asarray([0, 1, 0, 1, 1])
    where = np.asarray([True, True, True, False, True])
    assert sums_of(values, group, 2).tolist() == [5, 10 + large]
    assert sums_of(values, group, 2, where=where).tolist() == [5, 2 + large]
    assert counts_of(group, 2).tolist() == [2, 3]


def test_device_work_without_a_device_never_sums_below_zero():
    timeline = Timeline(unit_ns=1)
    for n in range(8):
        timeline.add(timeline.stream(), Kind.KERNEL, n, n + 2**61, name="k")
        timeline.copy(n, n + 1, size=2**61)
    totals = Facts(timeline.trace()).totals[0]
    assert (totals.kernel_ns, totals.h2d_bytes) == (2**63 - 1, 2**63 - 1)


def test_all_numbers_of_a_result_fit_into_64_bits():
    timeline = Timeline(unit_ns=1)
    for n in range(8):
        timeline.add(timeline.stream(), Kind.KERNEL, n, n + 2**61, name="k")
        timeline.copy(n, n + 1, size=2**61)
    result = assemble(Facts(timeline.trace()), "trace.json", "test")
    assert [v for v in numbers(msgspec.to_builtins(result)) if not 0 <= v < 2**63] == []
    assert result.ops[0].total_ns == 2**63 - 1


def numbers(value):
    if isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int):
        yield value
