"""A file that lacks device work says how much, and its verdict is less sure, in every format."""

import pytest

from stepwhy.engine.explain import explain
from tests import kineto_samples as kineto
from tests.read.cuda_samples import Nsys

COUNTER = "device-work-missing"


def explained(path, data=None):
    if data is not None:
        path.write_bytes(data)
    result = explain([str(path)])
    missing = [h for h in result.inputs[0].health if h.counter == COUNTER]
    return result, missing[0] if missing else None


def torch_trace(lost):
    """A recorded run of three steps without the kernels of some of its nine launches."""
    spelling = kineto.GENERATIONS["2022 categories"]
    records, number = [], 0
    for one in kineto.run(spelling):
        is_kernel = one.get("cat") == spelling.kernel
        number += is_kernel
        if not (is_kernel and number in lost):
            records.append(one)
    return kineto.dump(records, spelling.header)


def test_whole_files_lack_nothing(tmp_path):
    result, missing = explained(tmp_path / "whole.json", torch_trace(()))
    assert (result.verdict.bound_by, result.verdict.caveat, missing) == ("input", "", None)


@pytest.mark.parametrize(("lost", "share"), [((2, 5, 8), 25), ((1, 2, 4, 5, 7, 8), 50)])
def test_most_of_the_idle_time_may_be_missing_work(tmp_path, lost, share):
    result, missing = explained(tmp_path / "lossy.json", torch_trace(lost))
    assert (result.verdict.bound_by, result.verdict.confidence) == ("unknown", 0.0)
    assert f"Cannot tell: {share} % of the kernels and copies" in result.verdict.sentence
    assert (missing.severity, missing.count) == ("warning", len(lost))
    found = [f.id for f in result.findings if f.verdict == "found"]
    assert "launch-bound" not in found
    assert "host-sync" not in found


def nsys(lost):
    """A busy device whose kernels have gaps, in a database of Nsight Systems."""
    line = Nsys()
    for i in range(100):
        at = 100_000 * i
        line.call("cudaLaunchKernel_v7000", at, at + 8_000, i + 1)
        if i not in lost:
            line.kernel("gemm", at + 9_000, at + 108_000, i + 1)
    return line


def test_the_share_is_said_and_lowers_the_confidence(tmp_path):
    whole, none = explained(nsys(()).write(tmp_path / "whole.sqlite"))
    few, missing = explained(nsys(range(20, 25)).write(tmp_path / "few.sqlite"))
    many, much = explained(nsys(range(20, 60)).write(tmp_path / "many.sqlite"))
    assert none is None
    assert few.verdict.caveat.startswith("5.1 % of the kernels and copies that the steps launched")
    assert 0 < few.verdict.confidence < 0.6 * whole.verdict.confidence
    assert (missing.severity, missing.count, much.count) == ("warning", 5, 40)
    assert many.verdict.bound_by == "unknown"
    assert whole.verdict.bound_by == few.verdict.bound_by == "compute"
