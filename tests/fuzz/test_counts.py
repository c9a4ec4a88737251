"""Counts of runs: what is written, and what several of them add up to."""

import json

import pytest
from fuzz.counts import add_up, read, run_of, write
from fuzz.judge import Outcome
from fuzz.tally import Tally


def tally(explained, refused, failed=0):
    counts = Tally()
    for n in range(explained):
        counts.add(Outcome("explained", "kineto", cpu_s=0.5, is_known=n > 0))
    for _ in range(refused):
        counts.add(Outcome("refused", "corrupt-input"))
    for _ in range(failed):
        counts.add(Outcome("failed", "time"))
    return counts


def test_a_run_says_what_it_ran_and_counts_all():
    run = run_of({"kineto": tally(3, 2, 1), "nsys": tally(0, 4)}, seed=7, first=100)
    assert (run["seed"], run["first"], run["inputs"], run["failed"]) == (7, 100, 10, 1)
    assert {"stepwhy", "commit", "python", "numpy"} <= set(run["versions"])
    kineto = run["formats"]["kineto"]
    assert kineto["explained_as"] == {"kineto": 3}
    assert kineto["of_them_traces_explained_before"] == 2
    assert (kineto["refused_as"], kineto["failed_as"]) == ({"corrupt-input": 2}, {"time": 1})
    assert kineto["cpu_s"] == 1.5


def test_runs_add_up(tmp_path):
    first = run_of({"kineto": tally(3, 2), "nsys": tally(0, 4)}, seed=7, first=0)
    second = run_of({"kineto": tally(1, 0, 1)}, seed=8, first=0)
    for name, run in (("a.json", first), ("b.json", second)):
        write([run], tmp_path / name)
    write([*read(tmp_path / "a.json"), *read(tmp_path / "b.json")], tmp_path / "all.json")
    total = json.loads((tmp_path / "all.json").read_text())
    assert (total["inputs"], total["failed"]) == (11, 1)
    assert total["inputs_by_format"] == {"kineto": 7, "nsys": 4}
    assert total["runs"] == [first, second]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "all.json", "b.json"]


def test_the_same_inputs_are_not_counted_twice():
    run = run_of({"kineto": tally(1, 0)}, seed=7, first=0)
    other_place = run_of({"kineto": tally(1, 0)}, seed=7, first=5000)
    assert add_up([run, other_place])["inputs"] == 2
    with pytest.raises(ValueError, match=r"counted twice.*\(7, 'kineto', 0\)"):
        add_up([run, run])
