"""The timeline of many ranks."""

import numpy as np
import pytest

from stepwhy.engine import timeline as module
from stepwhy.engine.timeline import TimelineParts, explain_with_timeline
from stepwhy.result import RankUse
from tests.engine.rank_files import write_set
from tests.engine.test_explain import kineto


def titles(timeline):
    return [row.group for row in timeline.rows if row.title == "Where the time goes"]


def test_ranks_are_drawn_by_number(tmp_path):
    for rank in range(12):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=12))
    _, timeline = explain_with_timeline([str(tmp_path / "*.json")])
    assert titles(timeline) == [f"Rank {rank}" for rank in range(12)]
    assert timeline.ranks == (12, 12)


def test_of_many_ranks_those_that_matter_are_drawn(tmp_path):
    for rank in range(35):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=35, slow=1 + (rank == 33)))
    _, timeline = explain_with_timeline([str(tmp_path)])
    assert len(titles(timeline)) == 32
    assert "Rank 33" in titles(timeline)
    assert timeline.ranks == (32, 35)


def test_of_very_many_ranks_those_that_wait_least_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_KEPT", 4)
    monkeypatch.setattr(module, "_MOST_RANKS", 2)
    for rank in range(9):
        (tmp_path / f"{rank}.json").write_text(kineto(rank, world=9, slow=1 + (rank == 5)))
    _, timeline = explain_with_timeline([str(tmp_path)])
    assert "Rank 5" in titles(timeline)
    assert timeline.ranks == (2, 9)


def test_a_rank_that_is_not_compared_is_drawn(tmp_path):
    paths = write_set(tmp_path, np.full((4, 6), 2000.0))
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[: len(content) // 2])
    result, timeline = explain_with_timeline([str(tmp_path)])
    assert [rank.rank for rank in result.ranks] == [0, 2, 3]
    assert titles(timeline) == [f"Rank {rank}" for rank in range(4)]


def test_clocks_that_differ_by_seconds_are_aligned(tmp_path):
    work = np.full((4, 6), 2000.0)
    work[2] += 500
    clock_us = np.array([0.0, 1e6, -2e6, 5.0])
    write_set(tmp_path, work, clock_us=clock_us, drift=np.array([0, 5e-5, 0, 0]))
    _, timeline = explain_with_timeline([str(tmp_path)])
    assert timeline.match.offset_ns == pytest.approx(2e9, abs=1e6)
    assert timeline.match.spread_ns < 10_000
    assert timeline.span_ns < 1e9
    assert timeline.has_waits
    assert not timeline.aligned


def test_without_traces_there_is_no_timeline():
    assert TimelineParts().timeline([RankUse(0, 1, 1)]).rows == ()
