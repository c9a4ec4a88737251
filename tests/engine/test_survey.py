"""Several unrelated runs, each explained by itself."""

import pytest

from stepwhy.base.errors import NotFoundError
from stepwhy.engine.survey import survey
from tests.engine.test_explain import kineto
from tests.engine.test_rank_folders import run_of_rank


def test_unrelated_runs_and_ranks_in_a_folder_of_their_own(tmp_path):
    (tmp_path / "a.json").write_text(kineto())
    (tmp_path / "b.json").write_text(kineto(slow=2.0))
    (tmp_path / "c.json").write_text('{"neither": "trace"}')
    job = tmp_path / "job"
    job.mkdir()
    for rank in (0, 1):
        (job / f"rank{rank}.json").write_text(kineto(rank))
    entries = {entry.name: entry for entry in survey([str(tmp_path)])}
    assert set(entries) == {f"{tmp_path}/{n}" for n in ("a.json", "b.json", "c.json", "job")}
    walls = {name: e.result and e.result.breakdown.wall_ns for name, e in entries.items()}
    assert walls[f"{tmp_path}/a.json"] == 1_000_000
    assert walls[f"{tmp_path}/b.json"] == 2_000_000
    assert entries[f"{tmp_path}/job"].result.run.ranks == 2
    unread = entries[f"{tmp_path}/c.json"]
    assert unread.result is None
    assert "no trace that stepwhy knows" in unread.error


def test_the_ranks_of_a_run_directory_count_as_one_run(tmp_path):
    expected = []
    for name in ("after", "before"):
        run, other = (run_of_rank(tmp_path / "kept" / name, rank) for rank in (0, 1))
        (other / "process-11").rename(run / "process-11")
        (other / "run.json").unlink()
        expected.append(str(run))
    entries = survey([str(tmp_path)])
    assert [entry.name for entry in entries] == expected
    assert [entry.result.run.ranks for entry in entries] == [2, 2]


def test_a_name_behind_which_nothing_is(tmp_path):
    with pytest.raises(NotFoundError):
        survey([str(tmp_path / "missing.json")])
