"""`stall.json.gz` of a run directory, whole and damaged."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.read.flight_recorder_samples import dump, entry

from stepwhy.engine.explain import explain
from stepwhy.read.formats.run_directory.stall_log import add_stall
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.trace import Trace

S = 10**9
STALL = {
    "schema": "stepwhy.stall/1",
    "time_ns": 90 * S,
    "since_ns": 50 * S,
    "steps": 12,
    "usual_ns": S,
    "lines": ["a.py(1): main", "a.py(7): step"],
    "recorder": None,
}


def packed(**changes: Any) -> bytes:
    return gzip.compress(json.dumps(STALL | changes).encode(), mtime=0)


def read(data: bytes, last_end_ns: int = 50 * S) -> tuple[Trace, str]:
    builder = TraceBuilder()
    notes = add_stall(data, last_end_ns, builder)
    return builder.finish(Meta("step-log")), "".join(notes)


def test_where_the_process_stood() -> None:
    trace, note = read(packed(recorder=dump(entry(1), entry(2, done=False))))
    table = trace.positions
    assert note == ""
    assert (table.time_ns[0], table.since_ns[0], table.steps[0]) == (90 * S, 50 * S, 12)
    assert table.usual_ns[0] == S
    assert trace.string(int(table.lines[0])) == "a.py(1): main; a.py(7): step"
    assert trace.collective_calls.done.tolist() == [1, 0]


def test_what_the_innermost_line_has_called() -> None:
    trace, _ = read(packed(inside="jax: block_until_ready"))
    assert trace.string(int(trace.positions.inside[0])) == "jax: block_until_ready"
    assert read(packed())[0].positions.inside.tolist() == [NULL]


def test_without_a_recorder_and_enough_steps() -> None:
    trace, _ = read(packed(usual_ns=None))
    assert trace.positions.usual_ns.tolist() == [NULL]
    assert not len(trace.collective_calls)


def test_a_process_that_went_on_did_not_hang() -> None:
    assert not len(read(packed(), 91 * S)[0].positions)
    assert len(read(packed(), 90 * S)[0].positions)


@pytest.mark.parametrize(
    "data",
    [b"x", packed()[:-9], gzip.compress(b"[]"), packed(time_ns=49 * S), packed(lines=3)],
)
def test_a_damaged_file_is_left_out_and_named(data: bytes) -> None:
    trace, note = read(data)
    assert not len(trace.positions)
    assert "is damaged" in note


def test_a_later_version_is_left_out() -> None:
    assert "later version" in read(packed(schema="stepwhy.stall/2"))[1]
    assert read(b"")[1] == ""


def write_run(folder: Path, exit_code: int | None) -> None:
    """A run of two ranks, of which rank 1 has not entered the third collective."""
    run = {"schema": "stepwhy.run/1", "command": ["train.py"], "exit_code": exit_code}
    (folder / "run.json").write_text(json.dumps(run))
    for rank in range(2):
        process = folder / f"process-{rank + 1}"
        process.mkdir()
        about = {"pid": rank + 1, "framework": "pytorch", "rank": rank, "world_size": 2}
        (process / "process.json").write_text(json.dumps(about))
        made = [entry(1), entry(2), *([] if rank else [entry(3, done=False)])]
        line = "a.py(7): load" if rank else "a.py(9): step"
        stall = packed(recorder=dump(*made, ranks=""), lines=["a.py(1): main", line])
        (process / "stall.json.gz").write_bytes(stall)


@pytest.mark.parametrize("exit_code", [130, None])
def test_the_report_begins_with_the_rank_that_hangs(tmp_path: Path, exit_code: int | None) -> None:
    write_run(tmp_path, exit_code)
    result = explain([str(tmp_path)])
    first = "Rank 1 is at a.py:7 and has not entered all_reduce 3; rank 0 waits in it."
    assert result.run.ending.startswith(first)
    found = result.findings[0]
    assert (found.id, found.verdict) == ("hung-collective", "found")
    lasted = [e.value for e in found.evidence if e.unit == "ns"]
    assert lasted == [40 * S]


def test_a_rank_that_wrote_nothing_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, 130)
    (tmp_path / "process-2" / "stall.json.gz").unlink()
    result = explain([str(tmp_path)])
    assert "rank 1 leaves no record, and has perhaps not entered it" in result.run.ending
