"""Where ranks of a running job stand, from what those that have stopped have noted."""

import gzip
import json

import pytest

from stepwhy.engine.stopped_ranks import StoppedRanks
from stepwhy.result.hangs import At, Standing
from stepwhy.result.wording.hangs import hang_sentence
from stepwhy.show.metrics.ranks import Judged, RankNow
from tests.read.flight_recorder_samples import dump, entry

S = 10**9
LOAD, STEP = "a.py(7): load", "a.py(9): step"


class Clock:
    """Each look at it takes so long."""

    def __init__(self, tick_s=0.0):
        self.s, self.tick_s = 0.0, tick_s

    def __call__(self):
        self.s += self.tick_s
        return self.s


def note(folder, line, entries, time_ns=90 * S, **changes):
    """What a process writes in a step that does not end."""
    content = {
        "schema": "stepwhy.stall/1",
        "time_ns": time_ns,
        "since_ns": 50 * S,
        "steps": 12,
        "usual_ns": S,
        "lines": ["a.py(1): main", line],
        "recorder": None if entries is None else dump(*entries, ranks=""),
        **changes,
    }
    folder.mkdir(exist_ok=True)
    new = folder / "new"
    new.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))
    new.replace(folder / "stall.json.gz")


def entered(count):
    """Collectives of which the last one has not ended if it is the third."""
    return [entry(number, done=number < 3) for number in range(1, count + 1)]


def judged(folder, number, *, has_stopped=True, last_step_ns=50 * S):
    now = RankNow(number, last_step_ns=last_step_ns, folder=str(folder))
    return Judged(now, has_stopped=has_stopped)


@pytest.fixture
def job(tmp_path):
    """Eight ranks; rank 6 has not entered the third collective."""
    for number in range(8):
        late = number == 6
        note(tmp_path / str(number), LOAD if late else STEP, entered(2 if late else 3))
    return [judged(tmp_path / str(number), number) for number in range(8)]


def test_the_rank_that_has_not_entered_the_collective(job):
    found = StoppedRanks(Clock()).read(job, 1.0)
    assert found.lines == {n: LOAD if n == 6 else STEP for n in range(8)}
    assert (found.read, found.noted, found.alike) == (8, 8, 0)
    assert found.hang.missing == (At(6, LOAD, is_now=True),)
    assert found.hang.waiting == (0, 1, 2, 3, 4, 5, 7)


def test_ranks_without_collectives_are_compared_by_what_they_stand_in(tmp_path):
    for number in range(3):
        inside = "" if number == 1 else "jax: block_until_ready"
        note(tmp_path / str(number), LOAD if number == 1 else STEP, None, inside=inside)
    job = [judged(tmp_path / str(number), number) for number in range(3)]
    assert hang_sentence(StoppedRanks(Clock()).read(job, 1.0).hang) == (
        "Rank 1 is at a.py:7; 2 others wait in block_until_ready (jax) at a.py:9."
    )


def test_the_rank_at_a_rare_line_is_read_before_the_others(job):
    """With time for the lines of all, and for the collectives of some of them."""
    reader = StoppedRanks(Clock(tick_s=1.0))
    first = reader.read(job, 13)
    assert len(first.lines) == 8
    assert 1 < first.read < 8
    assert [at.rank for at in first.hang.missing] == [6]
    assert first.hang.unrecorded == ()
    assert first.alike == 8 - first.read
    assert reader.read(job, 100).read == first.read  # the others tell nothing more


def test_nobody_is_blamed_before_all_have_been_read(job):
    """All that were read wait; the others may, too."""
    waiting, reader = [*job[:6], job[7]], StoppedRanks(Clock(tick_s=1.0))
    found = reader.read(waiting, 12)
    assert found.read < 7
    assert found.hang is None
    assert len(reader.read(waiting, 100).hang.waiting) == 7


def test_a_rank_that_notes_nothing_is_named_as_such(job):
    found = StoppedRanks(Clock()).read([*job[:6], job[7]], 1.0)
    assert (found.hang.missing, found.hang.unrecorded) == ((), (6,))
    assert hang_sentence(found.hang).startswith("Ranks 0, 1, 2, 3, 4, 5 and 7 wait in all_reduce 3")


def test_a_rank_that_went_on_or_has_not_stopped_stands_nowhere(tmp_path):
    note(tmp_path / "0", STEP, entered(3))
    went_on = judged(tmp_path / "0", 0, last_step_ns=91 * S)
    runs = judged(tmp_path / "0", 0, has_stopped=False)
    assert StoppedRanks(Clock()).read([went_on, runs], 1.0) == Standing({})


def test_a_file_that_is_written_again_is_read_again(tmp_path):
    clock, ranks = Clock(), [judged(tmp_path / "0", 0), judged(tmp_path / "1", 1)]
    reader = StoppedRanks(clock)
    assert reader.read(ranks, 1.0) == Standing({})
    for folder, line in (("0", STEP), ("1", LOAD)):
        note(tmp_path / folder, line, None)
    clock.s += 10
    assert reader.read(ranks, 1.0) == Standing({0: STEP, 1: LOAD}, None, 2, 2)
    for folder, line, count in (("0", STEP, 3), ("1", LOAD, 2)):
        note(tmp_path / folder, line, entered(count))
    clock.s += 10
    assert reader.read(ranks, 1.0).hang.missing[0].rank == 1


@pytest.mark.parametrize("data", [b"", b"x", gzip.compress(b"[]"), gzip.compress(b'{"recorder"')])
def test_a_damaged_file_shows_nothing(tmp_path, data):
    (tmp_path / "stall.json.gz").write_bytes(data)
    assert StoppedRanks(Clock()).read([judged(tmp_path, 0)], 1.0) == Standing({})


def test_a_file_of_a_later_version_shows_nothing(tmp_path):
    note(tmp_path / "0", STEP, entered(3), schema="stepwhy.stall/2")
    assert StoppedRanks(Clock()).read([judged(tmp_path / "0", 0)], 1.0) == Standing({})
