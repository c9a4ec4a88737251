"""Subnormal numbers: which operations read or make them, and that repetitions change nothing."""

from __future__ import annotations

import pytest

from stepwhy.record.torch.subnormals import Subnormals

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework

LONG = 1_000_000  # ns
MUL, ADD = torch.ops.aten.mul.Tensor, torch.ops.aten.add_.Tensor


def noted(func, *args, took_ns=LONG, **kwargs):
    """What is noted of an operation that is run once."""
    found = Subnormals()
    made = func(*args, **kwargs)
    tensors = [one for one in (*args, made) if isinstance(one, torch.Tensor)]
    found.note(func, args, kwargs, tensors, place=3, took_ns=took_ns)
    return found.found


def small(*shape):
    return torch.full(shape, 1e-40)


def test_an_operation_that_reads_subnormal_numbers_is_repeated_with_usual_ones():
    (one,) = noted(MUL, small(64, 64), torch.ones(64, 64))
    assert (one.op, one.share) == (3, 1000)
    assert one.time_ns > 0 < one.usual_ns


def test_one_that_only_makes_them_counts_as_well():
    (one,) = noted(MUL, torch.full((64, 64), 1e-20), torch.full((64, 64), 1e-20))
    assert one.share == 1000


def test_a_part_of_the_values_is_a_share():
    values = torch.ones(64, 64)
    values[:32] = 1e-40
    (one,) = noted(MUL, values, torch.ones(64, 64))
    assert 400 < one.share < 600


@pytest.mark.parametrize("columns", [250, 4000, 4096])
def test_the_last_columns_are_looked_at_as_often_as_the_first_ones(columns):
    # A row's length can be such that every n-th value is in the first columns.
    for place, value in ((slice(columns // 2), 1.0), (slice(columns // 2, None), 1.0)):
        values = small(256, columns)
        values[:, place] = value
        (one,) = noted(MUL, values, values)
        assert 300 < one.share < 700


@pytest.mark.parametrize(
    "values",
    [
        torch.ones(64, 64),
        torch.zeros(64, 64),
        torch.full((8,), 1e-40),
        torch.full((64, 64), 1e-40, dtype=torch.float64),
        torch.full((64, 64), 1e-6).half(),
        torch.ones(64, 64, dtype=torch.int64),
    ],
)
def test_usual_numbers_and_few_values_are_not_noted(values):
    assert noted(MUL, values, values) == []


def test_short_operations_are_not_looked_at():
    assert noted(MUL, small(64, 64), small(64, 64), took_ns=1000) == []


def test_what_lies_apart_or_is_repeated_in_memory_is_read_within_its_bounds():
    strided = small(64, 200)[:, ::3]
    (one,) = noted(MUL, strided, strided)
    assert one.share == 1000
    assert noted(MUL, small(1).expand(64, 64), torch.ones(64, 64))[0].share == 1000


def test_arguments_that_are_written_stay_as_they_are():
    state, rate = small(64, 64), small(64, 64)
    (one,) = noted(ADD, state, rate, alpha=2)
    assert one.time_ns > 0
    assert torch.equal(state, torch.full((64, 64), 1e-40) + 2 * rate)


def test_random_operations_are_not_repeated():
    drop = torch.ops.aten.native_dropout.default
    torch.manual_seed(1)
    found = Subnormals()
    found.note(drop, (small(64, 64), 0.5, True), {}, [small(64, 64)], place=0, took_ns=LONG)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    assert [(one.time_ns, one.usual_ns) for one in found.found] == [(0, 0)]


def test_what_fails_with_usual_numbers_has_no_time():
    loss = torch.ops.aten.binary_cross_entropy.default
    far = torch.full((64, 64), 1e-40)
    found = Subnormals()
    found.note(loss, (far - 5, far), {}, [far], place=0, took_ns=LONG)
    assert [(one.time_ns, one.usual_ns) for one in found.found] == [(0, 0)]


def test_equal_operations_are_measured_once():
    found, values = Subnormals(), small(64, 64)
    for place in range(2):
        found.note(MUL, (values, values), {}, [values], place=place, took_ns=LONG)
    first, second = found.found
    assert (first.op, second.op) == (0, 1)
    assert first[1:] == second[1:]


def test_sparse_tensors_are_not_looked_at():
    sparse = torch.eye(64).to_sparse()
    found = Subnormals()
    found.note(MUL, (sparse, sparse), {}, [sparse, small(64, 64)], place=0, took_ns=LONG)
    assert found.found == []
