"""Ranks that executors reduce: the same bytes as in this process, whatever happens to workers."""

import os
import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
from click.testing import CliRunner

import stepwhy
from stepwhy.base.errors import EngineError, LostWorkerError, NoTracesError, SeveralRunsError
from stepwhy.base.redaction import Redactor
from stepwhy.cli import cli
from stepwhy.engine import explain, mapping
from stepwhy.engine.executors.engines import engine_of
from stepwhy.engine.executors.local_processes import LocalProcesses
from stepwhy.engine.explain import read_ranks
from stepwhy.engine.reduction import Work, works_of
from stepwhy.read.inputs.places import resolve
from stepwhy.read.inputs.remote.budget import Budget, Limits
from stepwhy.read.inputs.remote.places import Remote
from stepwhy.show import json
from tests.engine.test_reduction import damage, written


class Losing(LocalProcesses):
    """Processes, the first of which are killed as soon as they have started.

    Args:
        lost: Number of these.
    """

    def __init__(self, workers, lost):
        super().__init__(workers)
        self.lost = lost

    def _start(self):
        process = super()._start()
        if self.lost:
            self.lost -= 1
            process.kill()
        return process


class Refusing(Executor):
    """An executor all of whose tasks end in an error of its own."""

    def __init__(self, error):
        self.error = error

    def submit(self, *_arguments, **_options):
        future = Future()
        future.set_exception(self.error)
        return future


def rendered(folder, executor=None):
    return json.render(explain([str(folder)], executor=executor))


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_other_executors_give_the_same_bytes(threads, damaged, tmp_path):
    paths = written(tmp_path)
    if damaged:
        damage(paths)
    with ThreadPoolExecutor(threads) as executor:
        assert rendered(tmp_path, executor) == rendered(tmp_path)


def test_a_killed_worker_changes_nothing(tmp_path):
    damage(written(tmp_path))
    expected = rendered(tmp_path)
    with LocalProcesses(2) as executor:
        assert rendered(tmp_path, executor) == expected
    with Losing(2, lost=1) as executor:
        assert rendered(tmp_path, executor) == expected


def test_a_file_that_kills_two_workers_is_named(tmp_path):
    paths = written(tmp_path)
    with Losing(1, lost=2) as executor:
        result = explain([str(tmp_path)], executor=executor)
    assert result.run.ranks == 3
    assert any("rank0.json" in note for note in result.notes)
    assert len(result.inputs) == len(paths) - 1


def test_a_task_is_done_again_by_a_new_process(tmp_path):
    mark = tmp_path / "mark"
    once = f"import os; m = {str(mark)!r}; os.path.exists(m) or (os.mkdir(m), os.abort())"
    with LocalProcesses(1) as executor:
        assert executor.submit(exec, once).result() is None
        with pytest.raises(LostWorkerError, match=r"ended 2 times \(signal 6\)"):
            executor.submit(os.abort).result()
        assert executor.submit(len, "abc").result() == 3


def test_what_a_task_raises_reaches_its_future():
    with LocalProcesses(1) as executor:
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()
        with pytest.raises((AttributeError, TypeError), match=r"pickle|local object"):
            executor.submit(lambda: None).result()
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(len, "")


def test_an_interrupt_ends_the_processes():
    executor = LocalProcesses(1)
    assert executor.submit(len, "abc").result() == 3
    with pytest.raises(KeyboardInterrupt), executor:
        raise KeyboardInterrupt
    assert not executor._processes


def test_a_failing_executor_is_named(tmp_path):
    written(tmp_path)
    with pytest.raises(NoTracesError, match=r"rank0\.json was not read.*OSError: away"):
        explain([str(tmp_path)], executor=Refusing(OSError("away")))
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(EngineError, match="does no more tasks"):
        explain([str(tmp_path)], executor=executor)


def test_an_error_of_stepwhy_in_a_worker_is_no_unreadable_file(tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.setattr(mapping, "part_of", lambda *_, **__: 1 / 0)
    with ThreadPoolExecutor(1) as executor, pytest.raises(RuntimeError, match="ZeroDivision"):
        explain([str(tmp_path)], executor=executor)


def test_several_runs_stay_several_runs(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        written(tmp_path / name, late=ord(name) - ord("a"))
    with ThreadPoolExecutor(2) as executor, pytest.raises(SeveralRunsError) as elsewhere:
        explain([str(tmp_path)], executor=executor)
    with pytest.raises(SeveralRunsError) as here:
        explain([str(tmp_path)])
    assert str(elsewhere.value) == str(here.value)


def test_progress_counts_ranks_and_one_rank_is_seen(tmp_path):
    written(tmp_path)
    told, seen = [], []
    with ThreadPoolExecutor(1) as executor:
        explain(
            [str(tmp_path)],
            lambda *amounts: told.append(amounts),
            executor=executor,
            seen=lambda one, _facts, _result: seen.append(one.path),
        )
    assert [(done, total) for _, done, total in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert {text for text, _, _ in told} == {f"reduced rank{rank}.json" for rank in range(4)}
    assert seen == [str(tmp_path / "rank1.json")]


def test_paths_are_read_from_another_folder_and_shown_as_named(tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    works = works_of(resolve(["."]), Redactor.none(), predict=True)
    read = []

    class Elsewhere(Refusing):
        def submit(self, _call, work, **_options):
            read.append(work.place)
            return super().submit()

    with pytest.raises(NoTracesError, match="the first: rank0"):
        explain(["."], executor=Elsewhere(OSError()))
    assert [place.shown for place in read] == [work.place.shown for work in works]
    assert all(place.path.is_absolute() for place in read)


def test_an_address_and_the_numbers_of_secrets_reach_another_process():
    redactor = Redactor(values=["first-secret", "second-secret"], distinct=True)
    redactor.text("first-secret")
    work = Work(0, Remote("s3://bucket/rank0.json", Budget(Limits(bytes=7))), redactor)
    sent = pickle.loads(pickle.dumps(work))  # noqa: S301 - its own bytes
    assert sent.place.shown == "s3://bucket/rank0.json"
    assert sent.place.budget.limits.bytes == 7
    assert sent.redactor.text("second-secret first-secret") == "[redacted-2] [redacted]"
    assert redactor.text("second-secret") == "[redacted-2]"  # numbered by itself
    nothing = pickle.loads(pickle.dumps(Redactor.none()))  # noqa: S301 - likewise
    assert nothing.text("/home/smithers") == "/home/smithers"


@pytest.mark.parametrize(("most", "expected"), [(16, [0, 1, 2, 3]), (3, [1])])
def test_all_ranks_of_a_large_set_are_seen_if_they_are_few(most, expected, tmp_path, monkeypatch):
    written(tmp_path)
    monkeypatch.setitem(read_ranks.__globals__, "_MOST_DRAWN", most)
    monkeypatch.setattr(mapping, "processes_for", lambda _works: ThreadPoolExecutor(1))
    seen = []
    explain([str(tmp_path)], seen=lambda one, _facts, _result: seen.append(one.meta.rank))
    assert seen == expected


# --- which engine --------------------------------------------------------------------------------


def test_only_large_sets_are_worth_processes(tmp_path, monkeypatch):
    paths = written(tmp_path)
    works = works_of(resolve([str(tmp_path)]), Redactor.none(), predict=True)
    monkeypatch.setattr(mapping, "cores", lambda: 8)
    monkeypatch.setattr(mapping, "available_bytes", lambda: None)

    def workers():
        with mapping.processes_for(works) as executor:
            return executor and executor.workers

    assert workers() is None
    for path in paths:
        os.truncate(path, 60_000_000)
    assert workers() == 4
    monkeypatch.setattr(mapping, "available_bytes", lambda: 600_000_000)
    assert workers() == 2
    monkeypatch.setattr(mapping, "available_bytes", lambda: 300_000_000)
    assert workers() is None
    monkeypatch.setattr(mapping, "available_bytes", lambda: 10**12)
    monkeypatch.setattr(mapping, "cores", lambda: 1)
    assert workers() is None


def test_the_command_and_the_function_take_an_engine(tmp_path):
    written(tmp_path)
    expected = rendered(tmp_path)
    command = ["explain", "--json", "--engine", "processes:1", str(tmp_path)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.stdout.rstrip("\n") == expected.rstrip("\n")
    with ThreadPoolExecutor(1) as executor:
        assert stepwhy.explain(tmp_path, executor=executor).json == expected


@pytest.mark.parametrize("name", ["spark", "processes:no", "processes:0", ":"])
def test_an_unknown_engine_is_refused(name):
    with pytest.raises(EngineError, match="there is no engine"), engine_of(name):
        pass


def test_no_name_is_the_default():
    with engine_of("") as executor:
        assert executor is None
