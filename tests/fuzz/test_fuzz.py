"""A short run over damaged inputs of all formats, and what it takes for granted."""

import gzip
import json
import os
import sqlite3
from random import Random

import pytest
from fuzz.formats import BY_NAME, seeds, seeds_with
from fuzz.inputs import make
from fuzz.judge import Judge, seconds_for
from fuzz.minimise import EnoughError, minimise
from fuzz.mutate import BY_NAME as FILES
from fuzz.mutate import BY_SUFFIX, mutate
from fuzz.mutate.wire import parse, write
from fuzz.shorten import shorten
from fuzz.worker import Batch, Worker

from stepwhy.read.registry import all_formats, read_trace

INPUTS = 75  # of each format: about 20 s of processor time in all; `fuzz/run.py` makes more
SEED = 20


@pytest.fixture
def outcome_of(tmp_path):
    judge = Judge()
    return lambda files: judge(files, tmp_path)


def test_every_importer_has_seeds():
    assert set(BY_NAME) == {name for name, f in all_formats().items() if not f.is_folder}


@pytest.mark.parametrize("name", BY_NAME)
def test_seeds_are_valid(name, outcome_of):
    outcomes = [outcome_of(files) for files in seeds(name)]
    assert [(o.kind, o.details) for o in outcomes] == [("explained", "")] * len(outcomes)


@pytest.mark.parametrize("name", BY_NAME)
def test_damaged_inputs_are_explained_or_refused(name, outcome_of):
    failed = {}
    explained = refused = 0
    for index in range(INPUTS):
        outcome = outcome_of(make(name, SEED, index))
        explained += outcome.kind == "explained"
        refused += outcome.kind == "refused"
        if outcome.kind == "failed":
            again = f"python fuzz/run.py --format {name} --seed {SEED} --first {index} --inputs 1"
            failed[again] = f"{outcome.what}\n{outcome.details}"
    assert failed == {}
    # The damage is neither too little nor too much to show anything.
    assert explained > INPUTS / 20
    assert refused > INPUTS / 50


@pytest.mark.parametrize("name", BY_NAME)
def test_a_number_stands_for_one_input(name):
    wanted = range(40, 60)
    first = [make(name, SEED, i) for i in wanted]
    seeds_with.cache_clear()
    assert [make(name, SEED, i) for i in wanted] == first
    assert len({tuple(files.values()) for files in first}) > len(first) / 2


@pytest.mark.parametrize("name", [*FILES, *(f"x{suffix}" for suffix in BY_SUFFIX), "x.other"])
@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"[]", b"{}", b"null", b"SQLite format 3\x00", b"PK"]
)
def test_anything_can_be_damaged(name, data):
    random = Random(1)  # noqa: S311
    assert all(isinstance(mutate(name, data, [data], random), bytes) for _ in range(200))


@pytest.mark.parametrize("name", FILES)
def test_columns_are_damaged_inside_of_their_file(name):
    pack, unpack = (gzip.compress, gzip.decompress) if name.endswith(".gz") else (bytes, bytes)
    random = Random(1)  # noqa: S311
    data = pack(b'{"steps": [{"op": [0, 1, 2], "dur_ns": [3, 4, 5]}]}')
    assert len({unpack(FILES[name](data, random)) for _ in range(200)}) > 100


def test_fields_of_a_message_are_written_as_they_were_read():
    message = b"\x08\x96\x01\x12\x04\x08\x01\x10\x02\x1a\x03abc\x25\x00\x00\x80\x3f"
    fields = parse(message)
    assert [(f[0], f[2]) for f in fields[:3]] == [
        (1, 150),
        (2, [[1, 0, 1, 0], [2, 0, 2, 0]]),
        (3, b"abc"),
    ]
    assert write(fields) == message


def test_recorded_files_are_made_short():
    events = [{"ph": "X", "n": n} for n in range(1000)]
    short = json.loads(shorten(json.dumps({"a": 1, "traceEvents": events}).encode(), ".json"))
    assert (short["a"], len(short["traceEvents"])) == (1, 150)
    message = write([[1, 2, b"abc", 0]] * 1000)
    assert len(parse(shorten(message, ".pb"))) == 40
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE t (a); CREATE VIEW v AS SELECT * FROM t")
    connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(1000)])
    connection.commit()
    rest = sqlite3.connect(":memory:")
    rest.deserialize(shorten(connection.serialize(), ".sqlite"))
    assert rest.execute("SELECT count(*) FROM v").fetchone() == (60,)


def test_a_reproducer_is_made_small():
    record = {"ph": "X", "args": {"bytes": 7, "name": "x"}, "ts": 1}
    files = {"trace.json": json.dumps([*[{"ph": "M"}] * 50, record]).encode(), "beside.pb": b"abc"}
    small = minimise(files, lambda f: b'"bytes": 7' in f["trace.json"])
    assert list(small) == ["trace.json"]
    assert len(small["trace.json"]) <= len(b'[{"args": {"bytes": 7}}]')


def test_no_time_is_spent_on_a_large_reproducer_without_patience():
    """Megabytes have as many blocks as bytes: none of these may even be copied."""
    tried = []

    def fails(files):
        if len(tried) == 3:
            raise EnoughError
        tried.append(len(files["trace.pb"]))
        return len(tried) == 1

    small = minimise({"trace.pb": bytes(1 << 22)}, fails)
    assert tried == [1 << 21, 0, 1 << 20]
    assert len(small["trace.pb"]) == 1 << 21


# --- what a broken importer would look like ---


def judge_crash(_files, _folder):
    os._exit(3)


def judge_hang(_files, _folder):
    while True:
        pass


@pytest.mark.parametrize(("judged", "what"), [(judge_crash, "crash (3)"), (judge_hang, "hang")])
def test_a_process_that_is_gone_or_hangs_is_noticed(judged, what):
    worker = Worker(judged, lambda _: 0.1)
    outcome = worker.judge({"a": b""})
    assert (outcome.kind, outcome.what, worker.is_alive) == ("failed", what, False)
    worker.stop()


def test_a_worker_answers_every_input_of_a_batch():
    worker = Worker()
    worker.send(Batch("tf_timeline", SEED, 0, 2))
    outcomes = []
    while len(outcomes) < 2:
        outcomes += filter(None, [worker.receive()])
    assert [(o.kind, o.what) for o in outcomes] == [("explained", "tf-timeline")] * 2
    worker.stop()


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (ZeroDivisionError("x"), "ZeroDivisionError in "),
        (RuntimeWarning("overflow"), "RuntimeWarning in "),
        (MemoryError(), "MemoryError in "),
    ],
)
def test_anything_but_a_refusal_fails(error, what, outcome_of, monkeypatch):
    def read_trace(_source):
        raise error

    monkeypatch.setattr("fuzz.judge.read_trace", read_trace)
    outcome = outcome_of({"a": b"x"})
    assert (outcome.kind, outcome.what[: len(what)]) == ("failed", what)


def plant(change):
    """A reader that breaks a promise of every trace that it reads."""

    def planted(source):
        trace, name = read_trace(source)
        change(trace)
        return trace, name

    return planted


def lose_events(trace):
    trace.health.events_read += 1


def mix_up_names(trace):
    trace.slices.name[0] = len(trace.strings)


def take_memory(_trace):
    bytearray(b"x" * 300_000_000)


@pytest.mark.parametrize(
    ("change", "what"),
    [(lose_events, "integrity"), (mix_up_names, "integrity"), (take_memory, "memory")],
)
def test_a_broken_promise_fails(change, what, outcome_of, monkeypatch):
    monkeypatch.setattr("fuzz.judge.read_trace", plant(change))
    outcome = outcome_of(seeds("tf_timeline")[0])
    assert (outcome.kind, outcome.what) == ("failed", what)


def test_a_diagnosis_that_fails_is_not_overlooked(outcome_of, monkeypatch):
    def diagnose(_facts):
        raise KeyError("x")

    monkeypatch.setattr("stepwhy.diagnose.compute.dominant_op.diagnose", diagnose)
    outcomes = [outcome_of(files).what for files in seeds("kineto")]
    assert "diagnosis dominant-op failed" in outcomes


def test_an_input_is_as_large_as_what_it_unpacks_to(outcome_of, monkeypatch):
    ((name, data),) = seeds("chrome_trace")[0].items()
    padded = data + bytes(1 << 20)
    for unwatched in (1 << 26, 1 << 18):  # in memory; in a mapped file
        monkeypatch.setattr("stepwhy.read.inputs.spool._UNWATCHED", unwatched)
        assert outcome_of({f"{name}.gz": gzip.compress(padded)}).size_bytes == len(padded)


def test_more_time_for_more_bytes():
    assert (seconds_for(0), seconds_for(1 << 20), seconds_for(5 << 20)) == (10, 10, 50)
