"""`collectives.json.gz` of a run directory: when ranks entered their latest collectives."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.read.flight_recorder_samples import dump, entry
from tests.read.run_directory.test_run_directory import steps, write_run

from stepwhy.diagnose.shared.rule import SHARE_BEYOND_MEDIAN
from stepwhy.engine.explain import explain
from stepwhy.read.formats.run_directory.collective_log import add_collectives
from stepwhy.trace import NULL, Meta, TraceBuilder

S = 10**9
SCHEMA = "stepwhy.collectives/1"


def packed(**changes):
    content = {"schema": SCHEMA, "recorder": dump(entry(1), entry(2, done=False)), **changes}
    return gzip.compress(json.dumps(content).encode(), mtime=0)


def read(data, *, one_clock=True):
    builder = TraceBuilder()
    notes = add_collectives(data, builder, one_clock=one_clock)
    return builder.finish(Meta("step-log")).collective_calls, "".join(notes)


def test_all_collectives_of_what_ended_well_have_ended():
    calls, notes = read(packed())
    assert (calls.sequence.tolist(), calls.done.tolist(), notes) == ([1, 2], [1, 1], "")
    assert (calls.entered_ns != NULL).all()


def test_times_of_several_machines_are_not_compared():
    calls, _ = read(packed(), one_clock=False)
    assert calls.entered_ns.tolist() == [NULL, NULL]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"", ""),
        (b"no gzip", "damaged"),
        (packed()[:40], "damaged"),
        (packed(recorder=[]), "damaged"),
        (packed(recorder={"entries": 7}), "damaged"),
        (packed(schema="stepwhy.other/1"), "damaged"),
        (packed(schema="stepwhy.collectives/2"), "later version"),
    ],
    ids=["none", "no gzip", "cut", "no dump", "no entries", "other", "later"],
)
def test_what_cannot_be_read_is_left_out(data, note):
    calls, notes = read(data)
    assert len(calls) == 0
    assert note in notes if note else not notes


def write_ranks(folder, late_ns, exit_code=0, events=""):
    """A run of two ranks with a collective per second; rank 1 enters some of them later."""
    for rank, extra in enumerate(([0] * len(late_ns), late_ns)):
        process = write_run(folder / f"{rank}", steps(60, S), exit_code=exit_code)
        about = json.loads((process / "process.json").read_text()) | {"rank": rank, "world_size": 2}
        (process / "process.json").write_text(json.dumps(about))
        entries = [entry(number) for number in range(1, len(extra) + 1)]
        for one, ns in zip(entries, extra, strict=True):
            one["time_created_ns"] += ns
            del one["duration_ms"]
        (process / "collectives.json.gz").write_bytes(packed(recorder=dump(*entries)))
        if rank:
            (process / "events.jsonl").write_text(events)
        process.rename(folder / f"process-{rank}")
        (folder / f"{rank}" / "run.json").replace(folder / "run.json")
        (folder / f"{rank}").rmdir()
    return explain([str(folder)])


def late_arrival(result):
    return next(f for f in result.findings if f.id == "late-arrival")


def test_a_rank_that_is_late_in_every_fifth_step_is_named(tmp_path):
    found = late_arrival(write_ranks(tmp_path, ([0] * 4 + [9 * S // 10]) * 8))
    assert found.verdict == "found"
    evidence = {one.what: one.value for one in found.evidence}
    assert evidence["late ranks, the one that is late most often first"] == "rank 1"
    assert evidence["it is late in one collective of"] == 5
    assert evidence[SHARE_BEYOND_MEDIAN] == pytest.approx(0.18, rel=0.05)
    assert found.cost_ns_per_step == pytest.approx(0.18 * S, rel=0.05)


def test_what_makes_the_late_rank_late_comes_first(tmp_path):
    late_ns = ([0] * 4 + [9 * S // 10]) * 8
    saves = (
        {"kind": "save", "name": "torch.save", "start_ns": at * S, "end_ns": at * S + late}
        for at, late in enumerate(late_ns)
        if late
    )
    result = write_ranks(tmp_path, late_ns, events="".join(json.dumps(e) + "\n" for e in saves))
    assert result.findings[0].id == "checkpoint-stall"
    assert result.findings[0].ranks == (1,)
    assert late_arrival(result).explained_by == "checkpoint-stall"


def test_ranks_on_time_are_not_blamed(tmp_path):
    assert late_arrival(write_ranks(tmp_path, [0, 10**6] * 20)).verdict == "clear"


def test_of_what_failed_the_file_is_not_used(tmp_path):
    assert late_arrival(write_ranks(tmp_path, [S] * 40, exit_code=1)).verdict == "no_data"
