"""Several ways to read one file: which there are, and what becomes of those that do not agree."""

import json

import pytest
from fuzz.formats import seeds
from fuzz.judge import Judge
from fuzz.ways import WAYS, differences, is_damaged, taken, ways_of
from msgspec.structs import replace

from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace

NAMES = [f"{way.importer} {way.name}" for way in WAYS]


def source(name):
    file, data = next(iter(seeds(name)[0].items()))
    return Source(data, file)


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_every_way_reads_the_same(way):
    """A name that a way sets and its importer no longer has is an error, too."""
    trace = read_trace(source(way.importer))[0]
    with taken(way):
        other = read_trace(source(way.importer))[0]
    assert list(differences(trace, other)) == []


def test_a_file_goes_the_ways_of_its_importer():
    assert {way.importer for way in ways_of(source("kineto"))} >= {"kineto"}
    assert not ways_of(source("memory_timeline"))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda t: t.slices.dur_ns.__setitem__(0, 7), "slices.dur_ns"),
        (lambda t: t.slices.name.__setitem__(0, t.slices.name[1]), "slices.name"),
        (lambda t: setattr(t.health, "events_read", 3), "health"),
    ],
)
def test_differences_are_named(change, where):
    trace, other = read_trace(source("kineto"))[0], read_trace(source("kineto"))[0]
    change(other)
    assert [d.partition(":")[0] for d in differences(trace, other)] == [where]


def test_strings_may_stand_in_another_order():
    trace, other = read_trace(source("kineto"))[0], read_trace(source("kineto"))[0]
    names = other.slices.name
    names[:] = len(other.strings) - 1 - names
    other = replace(other, strings=tuple(reversed(other.strings)))
    found = {d.partition(":")[0] for d in differences(trace, other)}
    assert "slices.name" not in found
    assert "tracks.name" in found  # these were not renumbered


@pytest.mark.parametrize(
    ("data", "damaged"),
    [
        (b"[]", False),
        (b'\xef\xbb\xbf {"a": 1}', False),
        (b"[1, 2", True),
        (b'["\\ud800"]', True),
        (b"[NaN]", True),
        (b'{"traceEvents": [], "traceEvents": []}', True),
        (b"\x1f\x8bpacked", True),
        (b"\x0a\x03abc", False),
    ],
)
def test_what_is_damaged_text(data, damaged, tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(data)
    assert is_damaged(path) == damaged


@pytest.mark.parametrize(("end", "what"), [("", "failed"), (",", "explained")])
def test_ways_that_do_not_agree_are_a_failure_unless_the_file_is_damaged(
    end, what, tmp_path, monkeypatch
):
    def planted(given):
        trace, name = read_trace(given)
        planted.times += 1
        if planted.times > 1:
            trace.slices.dur_ns[0] += 1
        return trace, name

    planted.times = 0
    monkeypatch.setattr("fuzz.judge.read_trace", planted)
    ((name, data),) = seeds("chrome_trace")[0].items()
    assert json.loads(data)
    outcome = Judge()({name: data + end.encode()}, tmp_path)
    assert outcome.kind == what, outcome.details
    assert outcome.kind == "explained" or "differs in slices.dur_ns" in outcome.what
