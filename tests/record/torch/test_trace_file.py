"""The trace file of a window."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from stepwhy.record.torch import window_limits
from stepwhy.record.torch.trace_file import TRACE_FILE, write_trace
from stepwhy.record.torch.window_limits import WindowTooLargeError


class Profiler:
    def __init__(self, exported: str) -> None:
        self._exported = exported

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text(self._exported)


def test_host_name_is_removed(tmp_path: Path) -> None:
    events = '"traceEvents": [{"name": "host_name"}]}' + " " * (1 << 17)
    write_trace(Profiler('{"host_name": "the \\"box\\"", ' + events), tmp_path)
    assert gzip.decompress((tmp_path / TRACE_FILE).read_bytes()).decode() == (
        '{"host_name":"", ' + events
    )
    assert [path.name for path in tmp_path.iterdir()] == [TRACE_FILE]


@pytest.mark.parametrize("between", [0, 1 << 15, 1 << 16, 1 << 17, (1 << 17) + 7, 1 << 18])
def test_path_of_the_file_is_removed(tmp_path: Path, between: int) -> None:
    filling = " " * between
    write_trace(Profiler('{"a": 1,' + filling + '"traceName": "/home/me/trace.json"}'), tmp_path)
    assert gzip.decompress((tmp_path / TRACE_FILE).read_bytes()).decode() == (
        '{"a": 1,' + filling + '"traceName":""}'
    )


def test_trace_above_the_limit_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_limits, "_MOST_FILE", 10)
    with pytest.raises(WindowTooLargeError):
        write_trace(Profiler("x" * 11), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("exported", "has_kernels"),
    [('{"cat": "kernel"}', True), ('{"cat": "cpu_op", "name": "kernel"}', False), ("", True)],
)
def test_kernels_are_found(tmp_path: Path, exported: str, *, has_kernels: bool) -> None:
    assert write_trace(Profiler(exported), tmp_path) is has_kernels
