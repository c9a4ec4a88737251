"""Databases that others recorded, against facts that an independent program measured on them.

The folder named by STEPWHY_TRACES holds them and `FACTS.json`; they are no part of the package.
"""

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stepwhy.analyse.answers.verdict import decide
from stepwhy.base.errors import UnsupportedFormatError
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Copy, Kind
from stepwhy.trace.integrity import check
from tests import recorded

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]

TOLERANCE = 0.01
ROUNDING_MS = 0.001  # the facts are written with three decimals

# What the expert's primary cause is called in a verdict.
BOUND_BY = {
    "gpu_compute": "compute",
    "host_bound": "host",
    "startup": "startup",
    "no_gpu_events": "unknown",
    "no_events": "unknown",
}


def measured():
    """Facts of the databases, by their path in the folder."""
    if not TRACES:
        return {}
    known = json.loads(Path(TRACES, "FACTS.json").read_text())
    return {k: v for k, v in known.items() if v.get("format") in {"nsys_sqlite", "nvprof_sqlite"}}


FILES = sorted(measured())


def facts_of(name):
    return recorded.facts_of(Path(TRACES, name))


def test_every_database_of_the_folder_is_measured():
    found = {
        str(p.relative_to(TRACES))
        for folder in ("nsys", "nvprof")
        for p in Path(TRACES, folder).iterdir()
        if p.suffix != ".nsys-rep"
    }
    assert found == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_records_are_kept_or_counted_and_every_step_is_closed(name):
    facts = facts_of(name)
    check(facts.trace)
    assert facts.trace.meta.format == name.partition("/")[0]
    assert (facts.per_step.sum(axis=1) == facts.steps.durations_ns).all()
    assert sum(facts.breakdown.values()) == facts.wall_ns
    start, end = facts.span
    assert sum(s.total_ns for s in facts.partition.sets.values()) == end - start


def has(facts):
    """How many records of each kind the database has, where that was measured."""
    kinds = {"n_kernels": "kernels", "n_memcpy": "copies", "n_memset": "fills"}
    counts = {ours: facts[theirs] for theirs, ours in kinds.items() if theirs in facts}
    ranges, markers = facts.get("nvtx_ranges"), facts.get("n_markers")
    if ranges is not None or markers is not None:
        counts["ranges"] = ranges if ranges is not None else markers // 2
    calls = facts.get("n_runtime", (facts.get("has") or {}).get("CUPTI_ACTIVITY_KIND_RUNTIME"))
    return counts | ({"calls": calls} if calls is not None else {})


@pytest.mark.parametrize("name", FILES)
def test_every_record_became_a_slice(name):
    trace = facts_of(name).trace
    calls = trace.rows(Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC)
    device = trace.rows(Kind.KERNEL, Kind.COLLECTIVE)
    set_up = trace.rows(Kind.COMPILE, Kind.PROFILER)
    ours = {
        "kernels": len(device),
        "copies": len(trace.rows(Kind.MEMCPY)),
        "fills": len(trace.rows(Kind.MEMSET)),
        "calls": len(calls),
    }
    ours["ranges"] = len(trace.slices) - sum(ours.values()) - len(set_up)
    expected = has(measured()[name])
    assert {k: ours[k] for k in expected} == expected


@pytest.mark.parametrize("name", FILES)
def test_totals_of_the_devices(name):
    expected = measured()[name]["gpu"]
    totals = {t.name.removeprefix("GPU:"): t for t in facts_of(name).totals}
    assert sorted(totals) == sorted(expected)
    for number, theirs in expected.items():
        ours = totals[number]
        for figure, ns, ms in (
            ("busy", ours.busy_ns, theirs["busy_ms"]),
            ("kernel sum", ours.kernel_ns, theirs["kernel_sum_ms"]),
            ("communication", ours.communication_ns, theirs["comm_ms"]),
            ("exposed communication", ours.exposed_communication_ns, theirs["exposed_comm_ms"]),
            ("H2D", ours.h2d_ns, theirs["memcpy"].get("HtoD", {}).get("busy_ms", 0)),
            ("D2H", ours.d2h_ns, theirs["memcpy"].get("DtoH", {}).get("busy_ms", 0)),
        ):
            assert ns / 1e6 == pytest.approx(ms, rel=TOLERANCE, abs=ROUNDING_MS), figure
        assert ours.kernels == theirs["kernels"]
        assert ours.h2d_bytes == theirs["memcpy"].get("HtoD", {}).get("bytes", 0)
        assert ours.d2h_bytes == theirs["memcpy"].get("DtoH", {}).get("bytes", 0)


@pytest.mark.parametrize("name", FILES)
def test_copies_within_the_devices(name):
    trace = facts_of(name).trace
    rows = trace.rows(Kind.MEMCPY)
    rows = rows[trace.slices.copy[rows] == Copy.D2D]
    device = trace.tracks.device[trace.slices.track[rows]]
    for number, theirs in measured()[name]["gpu"].items():
        mine = rows[[trace.string(trace.devices.name[d]) == f"GPU:{number}" for d in device]]
        expected = theirs["memcpy"].get("DtoD", {"count": 0, "bytes": 0, "sum_ms": 0})
        assert len(mine) == expected["count"]
        assert int(trace.slices.bytes[mine].sum()) == expected["bytes"]
        took_ms = trace.slices.dur_ns[mine].sum() / 1e6
        assert took_ms == pytest.approx(expected["sum_ms"], rel=TOLERANCE, abs=ROUNDING_MS)


@pytest.mark.parametrize("name", FILES)
def test_ranges_and_calls_take_what_was_measured(name):
    trace = facts_of(name).trace
    for theirs in measured()[name].get("nvtx_top", []) + measured()[name].get("runtime_top", []):
        rows = trace.strings_where([re.sub(r"_v\d+$", "", theirs["name"])])
        mine = np.flatnonzero(np.isin(trace.slices.name, rows))
        assert len(mine) == theirs["count"]
        took_ms = trace.slices.dur_ns[mine].sum() / 1e6
        assert took_ms == pytest.approx(theirs["total_ms"], rel=TOLERANCE, abs=ROUNDING_MS)


@pytest.mark.parametrize("name", FILES)
def test_the_verdict_is_the_experts(name):
    expected = BOUND_BY[measured()[name]["expert"]["primary"]]
    verdict = decide(facts_of(name))
    assert verdict.bound_by == expected
    assert (verdict.confidence == 0.0) is (expected == "unknown")


def texts_of_the_machine(name):
    """Texts of tables that describe the machine, its users and the profiled processes."""
    with closing(sqlite3.connect(Path(TRACES, name))) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        tables = [r[0] for r in connection.execute("SELECT name FROM sqlite_master")]
        described = [
            t for t in tables if re.match(r"META_DATA|EXPORT_META|TARGET_INFO_SYS|PROCESSES", t)
        ]
        rows = [r for t in described for r in connection.execute(f'SELECT * FROM "{t}"')]  # noqa: S608
        strings = [t for t in tables if t == "StringIds"]
        rows += [r for t in strings for r in connection.execute(f'SELECT value FROM "{t}"')]  # noqa: S608
    texts = {v for row in rows for v in row if isinstance(v, str)}
    return [t for t in texts if re.search(r"[\w-]{3,}=|/home/|/root/|/tmp/|DESKTOP-|rich-wsl", t)]


@pytest.mark.parametrize("name", FILES)
def test_nothing_of_the_machine_shows(name):
    trace = facts_of(name).trace
    shown = "\n".join([*trace.strings, repr(trace.meta), repr(trace.health.counters)])
    assert [t for t in texts_of_the_machine(name) if t in shown] == []
    assert not re.search(r"/home/\w|/Users/\w|rich-wsl|DESKTOP-|josiah", shown)


def test_some_databases_have_something_to_hide():
    assert any(texts_of_the_machine(name) for name in FILES)


def test_a_report_that_must_be_exported_says_how():
    with pytest.raises(UnsupportedFormatError, match="nsys export --type sqlite"):
        read_trace(read_source(Path(TRACES, "nsys/titanrtx_poolformer.nsys-rep")))
