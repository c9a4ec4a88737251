"""How well devices are used together, by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.analyse.answers.parallel import parallel_use
from stepwhy.result import Device, ParallelUse

MS = 1_000_000


def devices(*compute_ms, kind="gpu"):
    return [
        Device(f"{kind}:{i}", kind, ms * MS, 0.0, ms * MS, 0, 0, 0, None, None)
        for i, ms in enumerate(compute_ms)
    ]


def test_two_devices_of_which_one_computes_less():
    assert parallel_use(devices(80, 40), 100 * MS) == ParallelUse(2, 0.6, 0.75, 0.8)


def test_a_parameter_host_is_none_that_computes():
    assert parallel_use(devices(80, 80, 3, kind="cpu"), 100 * MS) == ParallelUse(2, 0.8, 1.0, 0.8)


def test_a_cpu_beside_accelerators_does_not_count():
    both = [*devices(50, 50), *devices(90, kind="cpu")]
    assert parallel_use(both, 100 * MS) == ParallelUse(2, 0.5, 1.0, 0.5)


@pytest.mark.parametrize("compute", [(), (80,), (80, 0), (0, 0)])
def test_one_device_is_used_with_no_other(compute):
    assert parallel_use(devices(*compute), 100 * MS) is None


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 1000), min_size=2, max_size=9))
def test_efficiency_is_the_product_of_its_parts(compute):
    use = parallel_use(devices(*compute), 1000 * MS)
    if use is not None:
        product = use.load_balance * use.communication_efficiency
        assert use.efficiency == pytest.approx(product, abs=0.002)
        assert use.load_balance <= 1
