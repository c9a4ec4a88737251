"""Explanations run in processes of their own, one at a time."""

import sys
import time

import pytest

from stepwhy.apps.serve.jobs import Job, Jobs
from stepwhy.base import children
from stepwhy.base.errors import OutputError


def wait(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def program(monkeypatch):
    """Replaces the command by a program, which gets its arguments."""

    def use(code):
        monkeypatch.setattr(
            children,
            "module_command",
            lambda module, *words: [sys.executable, "-S", "-c", code, module, *words],
        )

    return use


@pytest.fixture
def jobs():
    changes = []
    made = Jobs(lambda: changes.append(1))
    made.changes = changes
    yield made
    made.close()


def test_one_after_the_other(jobs, program, tmp_path):
    program(
        "import os, sys, time\n"
        "lock = os.path.dirname(sys.argv[2]) + '/lock'\n"
        "os.mkdir(lock); time.sleep(0.05); os.rmdir(lock)"
    )
    for name in "abc":
        jobs.explain(name, tmp_path / name)
        jobs.explain(name, tmp_path / name)
    assert jobs.unfinished() == 3
    wait(lambda: not jobs.unfinished())
    assert [jobs.state(name) for name in "abc"] == [Job("done")] * 3
    assert len(jobs.changes) == 3


def test_the_reason_of_a_failure_is_kept(jobs, program, tmp_path):
    program("print('no steps\\x1b[31m. Run it for longer.'); raise SystemExit(3)")
    jobs.explain("a", tmp_path)
    wait(lambda: not jobs.is_busy("a"))
    state = jobs.state("a")
    assert state.state == "failed"
    assert state.reason == r"no steps\x1b[31m. Run it for longer."
    with pytest.raises(OutputError, match="no steps"):
        jobs.export(tmp_path, tmp_path / "out")


def test_closing_ends_the_process(jobs, program, tmp_path):
    finished = tmp_path / "finished"
    program(f"import time; time.sleep(60); open({str(finished)!r}, 'w')")
    jobs.explain("a", tmp_path)
    jobs.explain("b", tmp_path)
    wait(lambda: jobs._kill is not None)
    jobs.close()
    assert not finished.exists()
    assert jobs.state("b") == Job("waiting")
    with pytest.raises(OutputError, match="being ended"):
        jobs.export(tmp_path, tmp_path / "out")


def test_an_export_writes_the_file(jobs, program, tmp_path):
    program("import sys; open(sys.argv[-1], 'w').close()")
    jobs.export(tmp_path, tmp_path / "out")
    assert (tmp_path / "out").is_file()
