"""Ranks that were reduced in place: the same bytes as from their traces, whatever is there."""

import shutil

import pytest

from stepwhy.base.errors import NotFoundError, NoTracesError, UnsupportedFormatError
from stepwhy.engine import explain, reduced_files
from stepwhy.engine.reduced_files import reduce_in_place
from stepwhy.engine.timeline import explain_with_timeline
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.reduced import ENDING, IN_RUN, reduced_path
from stepwhy.read.registry import read_trace
from stepwhy.show import json
from tests.engine.test_explain import kineto
from tests.engine.test_reduction import damage, written
from tests.read.run_directory.test_run_directory import steps, write_run

RANKS, LATE = 4, 1


@pytest.fixture
def read(monkeypatch):
    """Numbers of the traces that were read and reduced, in order."""
    numbers = []
    reduce_file = reduced_files.reduce_file
    monkeypatch.setattr(
        reduced_files,
        "reduce_file",
        lambda work, *args, **options: (
            numbers.append(work.number) or reduce_file(work, *args, **options)
        ),
    )
    return numbers


def rendered(folder, **options):
    return json.render(explain([str(folder)], **options))


@pytest.mark.parametrize("reduced", [(0, 1, 2, 3), (0, 2), (1,)])
def test_reduced_ranks_give_the_same_bytes(reduced, tmp_path, read):
    paths = written(tmp_path, late=LATE)
    expected = rendered(tmp_path)
    for rank in reduced:
        assert reduce_in_place(paths[rank]).stat().st_size < 8_000
    read.clear()
    assert rendered(tmp_path) == expected
    assert read == [rank for rank in range(RANKS) if rank not in reduced]


def test_other_folders_and_globs_give_their_own_paths(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    for path in written(tmp_path / "a"):
        reduce_in_place(path)
    shutil.move(tmp_path / "a", tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    names = ["b", "b/*", "b/*.json", f"b/*{ENDING}"]
    results = [json.render(explain([name])) for name in names]
    assert len(set(results)) == 1
    for path in (tmp_path / "b").glob(f"*{ENDING}"):
        path.unlink()
    assert json.render(explain(["b"])) == results[0]


def test_only_the_described_rank_needs_its_trace(tmp_path):
    paths = written(tmp_path, late=LATE)
    expected = rendered(tmp_path)
    for rank, path in enumerate(paths):
        reduce_in_place(path)
        if rank != LATE:
            path.unlink()
    assert rendered(tmp_path) == expected
    paths[LATE].unlink()
    with pytest.raises(NotFoundError, match=f"describes rank {LATE}.*rank{LATE}.json{ENDING}"):
        rendered(tmp_path)


def test_another_trace_of_the_same_name_is_read(tmp_path, read):
    paths = written(tmp_path, late=0)
    for path in paths:
        reduce_in_place(path)
    written(tmp_path, late=2)
    read.clear()
    found = rendered(tmp_path)
    assert read == list(range(RANKS))
    for path in paths:
        reduced_path(path).unlink()
    assert rendered(tmp_path) == found


def test_damaged_files_beside_a_trace_change_nothing(tmp_path):
    paths = written(tmp_path)
    expected = rendered(tmp_path)
    for path, content in zip(
        paths, (b"", b"stepwhy reduced rank\n", b"x" * 99, b"{}"), strict=True
    ):
        reduced_path(path).write_bytes(content)
    assert rendered(tmp_path) == expected


def test_damaged_files_without_a_trace_are_named(tmp_path):
    paths = written(tmp_path)
    for path in paths:
        reduce_in_place(path)
    reduced_path(paths[3]).write_bytes(b"x" * 99)
    paths[3].unlink()
    notes = explain([str(tmp_path)]).notes
    assert any(f"rank3.json{ENDING} is damaged" in note for note in notes)


def test_damage_of_traces_is_reported_as_without(tmp_path):
    paths = written(tmp_path)
    damage(paths)
    expected = rendered(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "rank3.json":
            reduce_in_place(path)
    assert rendered(tmp_path) == expected


def test_secrets_that_are_asked_for_are_read(tmp_path, read):
    for path in written(tmp_path):
        reduce_in_place(path)
    read.clear()
    rendered(tmp_path, redact=False)
    assert read == list(range(RANKS))


def test_a_run_directory_is_reduced(tmp_path):
    write_run(tmp_path, steps(30, 10_000_000, profiled=(20, 21)), window=kineto())
    expected = rendered(tmp_path)
    assert reduce_in_place(tmp_path) == tmp_path / IN_RUN
    assert rendered(tmp_path) == expected
    (tmp_path / "result.json").write_text("{}")  # what is written afterwards is no record
    assert rendered(tmp_path) == expected


def test_what_cannot_be_read_is_not_reduced(tmp_path):
    (tmp_path / "run.json").write_text('{"schema": "stepwhy.run/1"}')
    with pytest.raises(NoTracesError):
        reduce_in_place(tmp_path)
    assert not (tmp_path / IN_RUN).exists()


def test_the_timeline_shows_the_described_rank(tmp_path):
    for path in written(tmp_path):
        reduce_in_place(path)
    result, timeline = explain_with_timeline([str(tmp_path)])
    assert (result.run.ranks, timeline.slices > 0) == (RANKS, True)


def test_a_reduced_rank_is_no_trace(tmp_path):
    path = reduce_in_place(written(tmp_path)[0])
    with pytest.raises(UnsupportedFormatError, match="a rank that stepwhy has reduced"):
        read_trace(read_source(path))
