"""Work of importers on extreme files that do not take more function calls, only longer ones."""

import cProfile

import numpy as np
import pytest
from fuzz.extremes.cases import CASES

from stepwhy.engine.explain import explain
from stepwhy.read.formats.kineto import overruns
from stepwhy.read.formats.rocprof import lists
from stepwhy.read.formats.xplane import layout
from stepwhy.trace import Kind


def explained(format_name, name, size, folder):
    """The result for an extreme case, and the calls of every function by its name."""
    (case,) = (c for c in CASES if (c.format, c.name) == (format_name, name))
    ((file, data),) = case.files(size).items()
    folder.mkdir()
    (folder / file).write_bytes(data)
    profile = cProfile.Profile()
    result = profile.runcall(explain, [str(folder / file)])
    calls = {}
    for entry in profile.getstats():
        called = getattr(entry.code, "co_name", entry.code)
        calls[called] = calls.get(called, 0) + entry.callcount
    return result, calls


def test_lists_of_rocprof_are_searched_no_further_than_they_reach(monkeypatch, tmp_path):
    class Never:
        def search(self, *_args):
            raise AssertionError("searched a megabyte behind a list that ends before")

    monkeypatch.setattr(lists, "_BETWEEN", Never())
    result, _ = explained("rocprof", "domains", 20_000, tmp_path / "case")
    assert result.inputs[0].events_kept > 100


@pytest.mark.parametrize("fill", [b"", b" " * 9, b"\n"])
def test_a_list_of_rocprof_may_end_where_a_piece_ends(fill, monkeypatch):
    for size in range(20, 120):
        monkeypatch.setattr(lists, "_CHUNK", size)
        data = b"[" + b",".join(b'{ "a":%d}' % n for n in range(12)) + fill + b'],"b":{}}}'
        buffer, end = lists._list(data, 0)
        assert sum(text.count(b"{") for text in map(bytes, buffer._parts)) == 12
        assert data[end - 1 : end + 1] == b"],"


def test_overlapping_kernels_are_compared_with_few_others(monkeypatch):
    searched = []
    count = np.count_nonzero
    monkeypatch.setattr(
        overruns.np, "count_nonzero", lambda rows: searched.append(len(rows)) or count(rows)
    )
    monkeypatch.setattr(overruns, "_MAX_SEARCHED", 50, raising=False)
    kernels = 3000
    block = {
        "kind": np.full(kernels, Kind.KERNEL),
        "track": np.zeros(kernels, dtype=np.int32),
        "start_ns": np.arange(kernels) * 1000,
        "dur_ns": np.full(kernels, overruns.LONG_NS),
        "correlation": np.arange(kernels),
    }
    assert overruns.cut_overruns([block]) == 0
    assert kernels < sum(searched) <= 50 * kernels


def test_a_late_end_is_found_behind_a_launch_of_many_kernels(monkeypatch):
    monkeypatch.setattr(overruns, "_MAX_SEARCHED", 20, raising=False)
    of_launch, others = 500, 30
    kernels = 1 + of_launch + others
    block = {
        "kind": np.full(kernels, Kind.KERNEL),
        "track": np.zeros(kernels, dtype=np.int32),
        "start_ns": np.arange(kernels) * 1000,
        "dur_ns": np.asarray([10**9, *[900] * (kernels - 1)]),
        "correlation": np.asarray([1] * (1 + of_launch) + list(range(2, 2 + others))),
    }
    assert overruns.cut_overruns([block]) == 1
    assert block["dur_ns"][0] == (1 + of_launch) * 1000


def test_planes_beyond_the_most_cost_no_call_each(monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "MOST_PLANES", 5)
    explained("xplane", "empty planes", 1000, tmp_path / "first")
    _, few = explained("xplane", "empty planes", 10_000, tmp_path / "small")
    result, many = explained("xplane", "empty planes", 40_000, tmp_path / "large")
    assert many["_varint"] < 1.2 * few["_varint"]
    (counted,) = (h for h in result.inputs[0].health if h.counter == "plane-left-out")
    assert counted.count > 15_000


def test_runs_of_one_step_are_not_searched_for_one_by_one(tmp_path):
    explained("tfprof", "runs", 1000, tmp_path / "first")
    _, few = explained("tfprof", "runs", 10_000, tmp_path / "small")
    result, many = explained("tfprof", "runs", 40_000, tmp_path / "large")
    reduce = "<method 'reduce' of 'numpy.ufunc' objects>"
    assert many[reduce] < few[reduce] + 100
    assert result.steps.count > 1000
