"""`lines.json.gz` of a run directory, whole and damaged."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.read.formats.run_directory import line_log
from stepwhy.read.formats.run_directory.line_log import add_lines
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.trace import Trace

STEP = {"step": 7, "op": [-1, 0], "line": [1, -1], "dur_ns": [20, 30], "engine": [0, 1]}


def packed(*steps: dict[str, Any], **changes: Any) -> bytes:
    noted = {"schema": "stepwhy.lines/1", "strings": ["aten::mm", "a.py(1): f"], "steps": steps}
    return gzip.compress(json.dumps(noted | changes).encode(), mtime=0)


def read(data: bytes) -> tuple[Trace, str]:
    builder = TraceBuilder()
    note = add_lines(data, builder)
    return builder.finish(Meta("step-log")), "".join(note)


def test_rows_are_those_of_the_file() -> None:
    trace, note = read(packed(STEP, STEP | {"step": 8}))
    table = trace.line_times
    assert note == ""
    assert table.step.tolist() == [7, 7, 8, 8]
    assert [trace.string(n) if n != NULL else None for n in table.op.tolist()[:2]] == [
        None,
        "aten::mm",
    ]
    assert trace.string(table.line[0]) == "a.py(1): f"
    assert table.line[1] == NULL
    assert table.dur_ns.tolist()[:2] == [20, 30]
    assert table.engine.tolist()[:2] == [0, 1]
    assert set(table.module.tolist()) == {NULL}


def test_modules_are_those_of_the_file() -> None:
    trace, note = read(packed(STEP | {"module": [1, -1]}, strings=["aten::mm", "encoder.0"]))
    assert note == ""
    assert trace.string(trace.line_times.module[0]) == "encoder.0"
    assert trace.line_times.module[1] == NULL


@pytest.mark.parametrize(
    "change",
    [
        {"op": [0]},
        {"op": [1 << 70, 0]},
        {"op": [0, 2]},
        {"line": [0, -2]},
        {"engine": [0, 2]},
        {"module": [0]},
        {"module": [0, 2]},
        {"dur_ns": [1 << 62, 1 << 62]},
        {"dur_ns": [1, -1]},
        {"dur_ns": [0.5, 1]},
        {"dur_ns": [None, 1]},
        {"step": None},
        {"step": -1},
        {"step": 1 << 63},
        {"op": [], "line": [], "dur_ns": [], "engine": []},
    ],
)
def test_a_damaged_step_is_left_out(change: dict[str, Any]) -> None:
    trace, note = read(packed(STEP, STEP | {"step": 8} | change))
    assert trace.line_times.step.tolist() == [7, 7]
    assert note == "A step in lines.json.gz is damaged. It was left out."


@pytest.mark.parametrize(
    "data",
    [
        b"not compressed",
        packed(STEP)[:40],
        packed(STEP, STEP),
        gzip.compress(b"[" * 100_000, mtime=0),
        packed(STEP)[:-1],
        packed(STEP)[:-8] + bytes(8),
        packed(STEP, strings=["aten::mm", 1]),
        packed(STEP, strings={}),
        packed(STEP, schema=1),
        packed(STEP, schema="stepwhy.lines/0"),
        packed(STEP, schema="stepwhy.semantic/1"),
        packed(*(STEP | {"step": n} for n in range(9))),
    ],
    ids=range(12),
)
def test_a_damaged_file_adds_nothing(data: bytes) -> None:
    trace, note = read(data)
    assert not len(trace.line_times)
    assert note.startswith("lines.json.gz is damaged or too large. It was left out")


def test_a_later_version_is_left_out() -> None:
    later = gzip.compress(b'{"schema": "stepwhy.lines/2", "steps": {"7": [1, 2]}}')
    trace, note = read(later)
    assert not len(trace.line_times)
    assert note.startswith("lines.json.gz is of a later version of stepwhy")


def test_no_more_rows_are_read_than_are_ever_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_log, "_MOST_ROWS", 3)
    assert read(packed(STEP))[1] == ""
    assert read(packed(STEP, STEP | {"step": 8}))[1].startswith("lines.json.gz is damaged")


def test_no_more_is_decompressed_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_log, "_MOST_BYTES", 50)
    assert read(packed(STEP))[1].startswith("lines.json.gz is damaged or too large")


def test_no_file_is_no_damage() -> None:
    assert read(b"")[1] == ""
