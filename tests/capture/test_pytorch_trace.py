"""The trace file of a window."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from stepwhy.capture import pytorch_bounds
from stepwhy.capture.pytorch_bounds import WindowTooLargeError
from stepwhy.capture.pytorch_trace import TRACE_FILE, write_trace

if TYPE_CHECKING:
    from pathlib import Path


class Profiler:
    def __init__(self, exported: str) -> None:
        self._exported = exported

    def export_chrome_trace(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._exported)


def test_the_name_of_the_machine_is_cut_out(tmp_path: Path) -> None:
    events = '"traceEvents": [{"name": "host_name"}]}' + " " * (1 << 17)
    write_trace(Profiler('{"host_name": "the \\"box\\"", ' + events), tmp_path)
    assert gzip.decompress((tmp_path / TRACE_FILE).read_bytes()).decode() == (
        '{"host_name":"", ' + events
    )
    assert [path.name for path in tmp_path.iterdir()] == [TRACE_FILE]


def test_a_trace_over_the_bound_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytorch_bounds, "_MOST_FILE", 10)
    with pytest.raises(WindowTooLargeError):
        write_trace(Profiler("x" * 11), tmp_path)
    assert list(tmp_path.iterdir()) == []
