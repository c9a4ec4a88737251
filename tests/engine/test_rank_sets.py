"""Sets of files of ranks: who is blamed, by how much, and what damaged sets are said to lack."""

import gzip
import shutil

import numpy as np
import pytest

from stepwhy.base.errors import SeveralRunsError
from stepwhy.engine import explain
from tests.engine.rank_files import GATHER_US, write_set

RANKS, STEPS = 8, 12
CLEAR = ("straggler", "start-skew", "sequence-imbalance", "slow-group")


def noisy(seed, ranks=RANKS, steps=STEPS):
    return 2000 * np.random.default_rng(seed).normal(1, 0.003, (ranks, steps))


def clocks(seed, ranks=RANKS):
    random = np.random.default_rng(seed)
    second = 1e6
    return {
        "clock_us": random.uniform(-second, second, ranks),
        "drift": random.uniform(-50e-6, 50e-6, ranks),
    }


def explained(folder):
    result = explain([str(folder)])
    return result, {f.id: f for f in result.findings}


def value(finding, what):
    return next(e.value for e in finding.evidence if e.what == what)


def planted(kind, seed):
    """Work, and times in which data of the pairs moves."""
    work = noisy(seed)
    gather = np.full_like(work, GATHER_US)
    if kind == "constant":
        work[5] += 600
    elif kind == "two late":
        work[[2, 5]] += 600
    elif kind == "intermittent":
        work[5, 1::3] += 2000
    elif kind == "turns":
        work[np.arange(STEPS) * 3 % RANKS, np.arange(STEPS)] += 1000
    elif kind == "slow link":
        gather[6:8] += 700
    return work, gather


TRUTH = {
    "constant": ("straggler", 600, "5"),
    "two late": ("straggler", 600, "2, 5"),
    "intermittent": ("straggler", 667, "5"),
    "turns": ("sequence-imbalance", 1000, ""),
    "slow link": ("slow-group", 700, "6, 7"),
}
WHO = {
    "straggler": "late ranks, which wait least for the others",
    "slow-group": "ranks of the slow group",
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", TRUTH)
@pytest.mark.parametrize("shift", [{}, clocks(9)], ids=["one clock", "other clocks"])
def test_the_planted_cause_comes_first(kind, seed, shift, tmp_path):
    write_set(tmp_path, *planted(kind, seed), **shift)
    result, by_id = explained(tmp_path)
    diagnosis, cost_us, ranks = TRUTH[kind]
    assert result.findings[0].id == diagnosis
    assert result.findings[0].cost_ns_per_step / 1e3 == pytest.approx(cost_us, rel=0.1)
    found = [f.id for f in result.findings if f.verdict == "found"]
    assert set(found) - {"exposed-communication"} == {diagnosis}
    if ranks:
        named = value(by_id[diagnosis], WHO[diagnosis])
        assert sorted(named.split(", ")) == ranks.split(", ")


@pytest.mark.parametrize("seed", [1, 2])
def test_healthy_ranks_are_clear(seed, tmp_path):
    write_set(tmp_path, noisy(seed), **clocks(seed))
    _, by_id = explained(tmp_path)
    assert {name: by_id[name].verdict for name in CLEAR} == dict.fromkeys(CLEAR, "clear")
    waits = value(by_id["exposed-communication"], "of that, waiting for other ranks")
    assert waits < 50_000


def test_waits_that_nothing_explains_are_not_clear(tmp_path):
    """In two of six steps another rank is late: neither often enough, nor in turns."""
    work = noisy(3, steps=6)
    work[1, 2] += 2000
    work[6, 4] += 2000
    write_set(tmp_path, work)
    result, by_id = explained(tmp_path)
    for name in CLEAR:
        assert by_id[name].verdict == "incomplete"
        assert by_id[name].abstention.missing == ("causes-of-waits",)
    assert not [f for f in result.findings if f.title.startswith("Overlap")]


@pytest.fixture
def intermittent(tmp_path):
    """A set in which rank 5 is late in every third step."""
    return write_set(tmp_path, *planted("intermittent", 4))


def test_a_missing_rank_is_named_by_its_number(intermittent):
    intermittent[2].unlink()
    result, by_id = explained(intermittent[0].parent)
    assert (result.run.ranks, result.run.world_size) == (7, 8)
    assert "Rank 2 is missing: whether others wait for it cannot be told." in result.notes
    assert value(by_id["straggler"], WHO["straggler"]) == "5"


def test_if_the_late_rank_is_missing_nobody_is_blamed(intermittent):
    intermittent[5].unlink()
    result, by_id = explained(intermittent[0].parent)
    assert any(note.startswith("Rank 5 is missing") for note in result.notes)
    assert {by_id[name].verdict for name in ("straggler", "sequence-imbalance")} == {"incomplete"}
    assert not [f for f in result.findings if f.title.startswith("Overlap")]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_is_cut_off_counts_as_missing(intermittent, compressed):
    path = intermittent[3]
    content = path.read_bytes()
    if compressed:
        content = gzip.compress(content)
        path.unlink()
        path = path.with_suffix(".json.gz")
    path.write_bytes(content[: len(content) // 2])
    result, by_id = explained(intermittent[0].parent)
    assert (result.run.ranks, result.run.world_size) == (7, 8)
    cut = "Rank 3 is not compared, and counted as missing: its file ends early."
    assert cut in result.notes
    assert len(result.inputs) == 8
    assert value(by_id["straggler"], WHO["straggler"]) == "5"


def test_a_rank_that_is_given_twice_counts_once(intermittent):
    shutil.copy(intermittent[6], intermittent[6].with_name("again.json"))
    result, by_id = explained(intermittent[0].parent)
    assert (result.run.ranks, result.run.world_size) == (8, 8)
    (note,) = [note for note in result.notes if note.startswith("Left out")]
    assert "contains rank 6 again" in note
    assert value(by_id["straggler"], WHO["straggler"]) == "5"


def test_two_records_of_a_rank_are_two_runs(intermittent, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(write_set(other, noisy(5))[6], intermittent[6].with_name("again.json"))
    shutil.rmtree(other)
    with pytest.raises(SeveralRunsError, match=r"rank 6 is recorded twice, in .*again\.json"):
        explain([str(tmp_path)])


def test_all_ranks_cut_off_are_still_explained(intermittent):
    for path in intermittent:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * 2 // 3])
    assert explained(intermittent[0].parent)[0].run.ranks == 8
