"""When `stepwhy top --watch` asks which ranks for a window, and what becomes of it."""

from __future__ import annotations

import json

import pytest

from stepwhy.apps.top.watch import JobWatch
from stepwhy.record.core.requests import REQUEST_FILE, Request, Requests, requested
from stepwhy.show.metrics.ranks import RankNow, RecentStep, judge, usual_step
from stepwhy.show.metrics.watching import Asked

MS = 1_000_000
# Steps between two looks, and the time of a log's lines.
STEPS = 20


class Job:
    """Ranks that log steps.

    Args:
        folder: Of the run.
        count: Number of ranks.
    """

    def __init__(self, folder, count):
        self.folders = [folder / f"process-{rank}" for rank in range(count)]
        for place in self.folders:
            place.mkdir()
        self.lines = self.time_ns = 0
        self.watch = JobWatch()

    def go(self, looks, step_ms=100, late=None):
        """Take steps, and look after every 20 of them.

        Args:
            looks: How often.
            step_ms: How long a step takes.
            late: The rank that computes for most of it.
        """
        for _ in range(looks):
            self.log(step_ms)
            self.watch.look(judge([self.rank(n, step_ms, n == late) for n in range(self.count)]))
        return self.watch.noticed

    @property
    def count(self):
        return len(self.folders)

    def log(self, step_ms):
        lines = []
        for _ in range(STEPS):
            self.lines += 1
            self.time_ns += step_ms * MS
            lines.append(json.dumps({"kind": "step", "end_ns": self.time_ns}) + "\n")
        for folder in self.folders:
            with (folder / "steps.jsonl").open("a") as log:
                log.writelines(lines)

    def rank(self, number, step_ms, is_late):
        cpu_ms = 0.9 * step_ms if is_late else 30 + number
        steps = (RecentStep(step_ms * MS, 0, round(cpu_ms * MS)),) * STEPS
        return RankNow(
            *(number, steps, usual_step(steps), self.time_ns),
            folder=str(self.folders[number]),
            timed_steps=self.lines,
            timed_ns=self.time_ns,
        )

    def asked(self):
        """The requests that wait, by rank."""
        found = {rank: requested(folder) for rank, folder in enumerate(self.folders)}
        return {rank: request for rank, request in found.items() if request}

    def answer(self, *, accept=True):
        """All ranks look for requests."""
        for folder in self.folders:
            requests = Requests()
            requests.opens = lambda _: accept
            requests.look(folder)

    def trace(self, first, ranks):
        for rank in ranks:
            windows = self.folders[rank] / "windows"
            place = windows / f"{len(list(windows.glob('*'))):03d}"
            place.mkdir(parents=True)
            about = {"first_step": first, "last_step": first + 3}
            (place / "window.json").write_text(json.dumps(about))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path, 3)


def test_a_steady_job_is_left_alone(job):
    assert job.go(200) is None
    assert job.asked() == {}


def test_the_late_rank_and_one_that_waits_are_asked_for_the_same_step(job):
    job.go(20)
    noticed = job.go(4, 150, late=1)
    # The rank is late for four looks, before the step time counts as changed.
    assert noticed.late == 1
    requests = job.asked()
    # 480 lines, and those of the next two seconds.
    assert set(requests) == {0, 1}
    assert {request.step for request in requests.values()} == {noticed.step}
    assert 480 + 10 <= noticed.step <= 480 + 20
    assert all(300 < request.since < 480 for request in requests.values())
    assert noticed.asked == (Asked(1), Asked(0))


def test_a_slower_job_without_a_late_rank_is_asked_too(job):
    job.go(20)
    noticed = job.go(8, 115)
    assert (noticed.late, noticed.before_ns, noticed.after_ns) == (None, 100 * MS, 115 * MS)
    assert list(job.asked()) == [0, 1, 2]
    assert job.asked()[0] == Request(noticed.step, 400)


def test_the_step_time_after_a_change_is_the_mean_since_then(job):
    job.go(20)
    job.go(7, 130)
    assert job.go(1, 114).after_ns == 128 * MS


def test_a_faster_job_and_one_that_is_slow_for_a_moment_are_left_alone(job):
    job.go(20)
    assert job.go(60, 60) is None
    assert job.go(4, 100) is None
    assert job.go(60, 60) is None


def test_of_many_ranks_without_a_late_one_four_are_asked(tmp_path):
    job = Job(tmp_path, 30)
    job.go(20)
    job.go(8, 150)
    assert list(job.asked()) == [0, 8, 16, 24]


def test_what_the_ranks_answer_and_trace_is_followed(job):
    job.go(20)
    step = job.go(4, 150, late=1).step
    job.answer()
    assert [one.state for one in job.go(1, 150, late=1).asked] == ["accepted", "accepted"]
    job.trace(step, [0, 1])
    noticed = job.go(1, 150, late=1)
    assert noticed.asked == (
        Asked(1, "traced", step, step + 3),
        Asked(0, "traced", step, step + 3),
    )
    # Neither the late rank nor the step time is news.
    assert job.go(60, 150, late=1) == noticed
    assert job.asked() == {}


def test_ranks_that_have_traced_by_themselves_are_not_asked(job):
    job.go(20)
    job.go(3, 150)
    job.trace(452, [0, 1, 2])
    noticed = job.go(5, 150)
    assert noticed.step is None
    assert {one.state for one in noticed.asked} == {"traced"}
    assert job.asked() == {}


def test_a_window_from_before_the_change_does_not_count(job):
    job.trace(102, [0, 1, 2])
    job.go(20)
    assert job.go(8, 150).step is not None


def test_ranks_that_cannot_trace_say_so(job):
    job.go(20)
    job.go(4, 150, late=1)
    job.answer(accept=False)
    assert [one.state for one in job.go(1, 150, late=1).asked] == ["refused", "refused"]


def test_ranks_that_never_answer_are_given_up_and_the_request_is_withdrawn(job):
    job.go(20)
    job.go(4, 150, late=1)
    noticed = job.go(20, 150, late=1)
    assert [one.state for one in noticed.asked] == ["silent", "silent"]
    assert job.asked() == {}


def test_a_window_that_does_not_come_is_missed(job):
    job.go(20)
    job.go(4, 150, late=1)
    job.answer()
    assert [one.state for one in job.go(20, 150, late=1).asked] == ["missed", "missed"]


def test_another_late_rank_is_traced_as_well(job):
    job.go(20)
    step = job.go(4, 150, late=1).step
    job.answer()
    job.trace(step, [0, 1])
    job.go(10, 150, late=1)
    noticed = job.go(4, 150, late=2)
    assert noticed.late == 2
    assert list(job.asked()) == [0, 2]
    assert noticed.before_ns is None


def test_a_folder_that_cannot_be_written_is_named(job, monkeypatch):
    def fail(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("stepwhy.apps.top.watch.ask", fail)
    job.go(20)
    assert job.go(4, 150, late=1).failure == "Read-only file system"


def test_nothing_is_left_behind_at_the_end(job):
    job.go(20)
    job.go(4, 150, late=1)
    job.watch.end()
    assert not any((folder / REQUEST_FILE).exists() for folder in job.folders)
