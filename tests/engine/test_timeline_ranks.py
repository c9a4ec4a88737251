"""The timeline of many ranks."""

from stepwhy.engine.timeline import TimelineParts, explain_with_timeline
from stepwhy.findings import RankUse
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


def test_without_traces_there_is_no_timeline():
    assert TimelineParts().timeline([RankUse(0, 1, 1)]).rows == ()
