"""Watched blocks of programs; each program runs in its own process."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record import launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason=f"{package} is not installed"
    )


def start(tmp_path: Path, code: str, *options: str, **environ: str) -> subprocess.Popen[str]:
    (tmp_path / "train.py").write_text(textwrap.dedent(code))
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environ}
    environment.pop("STEPWHY_RUN_DIR", None)
    return subprocess.Popen(
        [sys.executable, *options, "train.py"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path: Path, code: str, *options: str) -> tuple[int, str, str]:
    program = start(tmp_path, code, *options)
    out, err = program.communicate(timeout=120)
    return program.returncode, out, err


@pytest.fixture
def run_fork(
    tmp_path: Path, forks: Callable[[str], Forks], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Returns what runs a program that finds its framework imported."""
    monkeypatch.delenv("STEPWHY_RUN_DIR", raising=False)

    def run(framework: str, code: str, *options: str) -> tuple[int, str, str]:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        ended = forks(framework).run([*options, script], tmp_path, tmp_path)
        return ended.returncode, ended.stdout, ended.stderr

    return run


def about(run_dir: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run_dir / "run.json").read_text())
    return loaded


def steps(run_dir: Path, kind: str = "step") -> list[dict[str, Any]]:
    (process,) = run_dir.glob("process-*")
    lines = map(json.loads, (process / "steps.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def windows(run_dir: Path) -> int:
    return sum(1 for _ in run_dir.glob("process-*/windows/*/window.json"))


_NUMPY = """
    import json, os, sys
    import numpy as np
    import stepwhy

    def work():
        return float(np.ones((64, 64)).dot(np.ones((64, 64))).sum())

    def loop(count):
        for _ in range(count):
            with stepwhy.step():
                work()
"""


def test_loop_without_a_framework_is_logged_with_explicit_steps(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    before = dict(os.environ)
    loop(3)
    with stepwhy.watch() as run:
        print("started", run.result, "being watched" in run._repr_html_())
        loop(20)
    loop(3)
    assert dict(os.environ) == before
    print(run.run_dir.relative_to(os.getcwd()).parent, run.messages, run.result.steps.count)
    print(run.result.verdict.bound_by, run._repr_html_().startswith("<iframe"))
    """,
    )
    assert code == 0, err
    printed = ["started None True", "stepwhy-runs () 20", "unknown True"]
    assert out.splitlines() == printed
    assert "no framework that can be traced" in err
    (run_dir,) = (tmp_path / "stepwhy-runs").iterdir()
    assert run_dir.name.endswith("-train")
    assert (about(run_dir)["exit_code"], about(run_dir)["ended_ns"] is None) == (0, False)
    logged = steps(run_dir)
    assert len(logged) == 20
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(logged))
    assert (run_dir / "report.html").is_file()


def test_a_second_block_writes_its_own_directory(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    for count in (5, 7):
        with stepwhy.watch(quiet=True) as run:
            loop(count)
        loop(2)
        print(run.run_dir.name, run.result.steps.count)
    """,
    )
    assert (code, err) == (0, "")
    names = [line.split() for line in out.splitlines()]
    assert [count for _, count in names] == ["5", "7"]
    assert len({name for name, _ in names}) == 2
    assert [len(steps(tmp_path / "stepwhy-runs" / name)) for name, _ in names] == [5, 7]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux only")
def test_more_blocks_open_no_more_files(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    def is_open(file):
        return "schedstat" in os.readlink(f"/proc/self/fd/{file}")

    def count():
        files = [f for f in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{f}")]
        return sum(map(is_open, files))

    for _ in range(3):
        with stepwhy.watch(quiet=True):
            loop(3)
        print(count())
    """,
    )
    assert (code, err) == (0, "")
    assert len(out.split()) == 3
    assert len(set(out.split())) == 1


def test_explanation_imports_nothing_into_the_program(tmp_path):
    code, out, err = run(
        tmp_path,
        """
    import sys
    import stepwhy
    print(sorted(name for name in sys.modules if name.startswith("stepwhy")))
    with stepwhy.watch("out", quiet=True) as run:
        for _ in range(5):
            with stepwhy.step():
                pass
    loaded = {name.partition(".")[0] for name in sys.modules}
    print(loaded & {"msgspec", "numpy", "rich", "jinja2", "pyarrow"})
    print(run.result.steps.count)
    """,
    )
    assert (code, out, err) == (0, "['stepwhy']\nset()\n5\n", "")


def test_a_plain_call_is_a_boundary(tmp_path):
    run(
        tmp_path,
        _NUMPY
        + """
    with stepwhy.watch("out", quiet=True):
        for _ in range(10):
            work()
            stepwhy.step()
    """,
    )
    # Time before the first call is not a step, because its start is unknown.
    assert len(steps(tmp_path / "out")) == 9


def test_exceptions_of_the_block_pass_through_and_are_recorded(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    try:
        with stepwhy.watch("out", quiet=True) as run:
            loop(5)
            with stepwhy.step():
                raise LookupError("mine")
    except LookupError as error:
        print(error, error.__cause__, error.__context__, run.result.steps.count)
    with stepwhy.watch("exit", quiet=True):
        loop(5)
        sys.exit(7)
    """,
    )
    assert (code, out, err) == (7, "mine None None 5\n", "")
    assert about(tmp_path / "out")["exit_code"] == 1
    assert about(tmp_path / "exit")["exit_code"] == 7
    assert len(steps(tmp_path / "out")) == 5  # the aborted one is not a step


def test_keyboard_interrupt_works_as_usual(tmp_path):
    code, _, err = run(
        tmp_path,
        _NUMPY
        + """
    import signal
    with stepwhy.watch("out", quiet=True):
        loop(5)
        signal.raise_signal(signal.SIGINT)
    """,
    )
    assert code == -2
    assert "KeyboardInterrupt" in err
    assert about(tmp_path / "out")["exit_code"] == 130
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize("quiet", [True, False])
def test_block_that_cannot_be_observed_still_runs(tmp_path, quiet):
    (tmp_path / "file").write_text("")
    code, out, err = run(
        tmp_path,
        _NUMPY
        + f"""
    with stepwhy.watch("file/below", quiet={quiet}) as run:
        loop(5)
        print("trained")
    print(run.run_dir, run.result, run.messages)
    """,
        "-Werror",
    )
    assert code == 0
    said = "nothing is observed: the run directory"
    assert out.startswith("trained\nNone None ('nothing is observed: the run directory")
    assert (said in err) is not quiet


def test_directory_with_a_run_is_unchanged(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text("{}")
    code, out, _ = run(
        tmp_path,
        _NUMPY
        + """
    with stepwhy.watch("out") as run:
        loop(5)
    print("already holds a run" in run.messages[0])
    """,
    )
    assert (code, out) == (0, "True\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run.json"]


def test_names_are_escaped_in_output(tmp_path):
    """For a run directory that can be written, and for one that cannot."""
    (tmp_path / "file").write_text("")
    code, out, err = run(
        tmp_path,
        _NUMPY
        + r"""
    name = "a\x1b]0;x\x07\u202e[red][/]\nb" + os.fsdecode(b"\xff")
    for folder in (name, "file/" + name):
        with stepwhy.watch(folder) as run:
            print(ascii(run._repr_html_()))
            loop(20)
    print(ascii(run._repr_html_()))
    """,
    )
    assert code == 0, err
    shown = r"a\x1b]0;x\x07\u202e[red][/]\nb\xff"
    assert "".join(err.split()).count(shown) >= 3  # the page, how to explain again, the refusal
    assert not set(err) & set("\x1b\x07\u202e")
    assert r"\x1b" not in out.replace(r"\\x1b", "")
    assert r"\u202e" not in out.replace(r"\\u202e", "")


def test_a_block_in_a_block_belongs_to_the_outer_one(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    with stepwhy.watch("outer", quiet=True) as outer:
        loop(3)
        with stepwhy.watch("inner") as inner:
            loop(4)
        loop(3)
    print(outer.result.steps.count, outer.messages, inner.run_dir, len(inner.messages))
    """,
    )
    assert (code, out, err) == (0, "10 () None 1\n", "")
    assert not (tmp_path / "inner").exists()


def test_block_without_steps_is_reported(tmp_path):
    code, out, err = run(
        tmp_path,
        """
    import stepwhy
    with stepwhy.watch("out") as run:
        pass
    print(run.result, len(run.messages))
    """,
    )
    assert (code, out) == (0, "None 1\n")
    assert err.startswith("stepwhy: no training loop was seen in the block")


def test_a_fork_that_leaves_the_block_leaves_it_to_its_parent(tmp_path):
    code, out, err = run(
        tmp_path,
        _NUMPY
        + """
    with stepwhy.watch("out", quiet=True) as run:
        loop(5)
        child = os.fork()
    if child == 0:
        with stepwhy.watch("child", quiet=True) as own:
            loop(4)
        sys.exit(0)
    os.waitpid(child, 0)
    print(run.result.steps.count)
    """,
    )
    assert (code, out, err) == (0, "5\n", "")
    assert len(steps(tmp_path / "child")) == 4


def test_block_under_stepwhy_run_does_nothing_and_steps_are_explicit(tmp_path, capfd):
    (tmp_path / "train.py").write_text(
        textwrap.dedent(
            _NUMPY
            + """
    with stepwhy.watch("inner") as run:
        loop(12)
    print(run.run_dir, run.messages)
    """
        )
    )
    ended = launch([sys.executable, str(tmp_path / "train.py")], tmp_path / "out")
    assert (ended.exit_code, ended.messages) == (0, ())
    assert capfd.readouterr().out.startswith("None (\"this program runs under 'stepwhy run'")
    assert not (tmp_path / "inner").exists()
    assert len(steps(tmp_path / "out")) == 12


def test_helper_ends_with_a_killed_program(tmp_path):
    program = start(
        tmp_path,
        _NUMPY
        + """
    with stepwhy.watch("out", quiet=True) as run:
        loop(5)
        print(run._block._helper._process.pid, flush=True)
        sys.stdin.read()
    """,
    )
    assert program.stdout is not None
    with program:
        helper = int(program.stdout.readline())
        # A pidfd becomes readable when the process has ended.
        watched = os.pidfd_open(helper)
        program.kill()
    ended = select.select([watched], [], [], 30)[0]
    os.close(watched)
    assert ended


_TORCH = """
    import torch
    import stepwhy

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(second, 0.9)

    def train(optimizer):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()
"""


@pytest.mark.framework
@needs("torch")
def test_optimizers_that_exist_are_observed(tmp_path, run_fork):
    code, out, err = run_fork(
        "torch",
        _TORCH
        + """
    def losses(optimizer):
        return [train(optimizer) for _ in range(30)]

    losses(first)
    for name, optimizer in (("plain", first), ("scheduled", second)):
        with stepwhy.watch(name, quiet=True) as run:
            losses(optimizer)
            if optimizer is second:
                schedule.step()
        print(run.messages, run.result.run.framework, run.result.steps.source)
        losses(optimizer)
    """,
        "-Werror",
    )
    assert (code, err) == (0, "")
    assert out.splitlines() == ["() pytorch hook"] * 2
    for name in ("plain", "scheduled"):
        assert (len(steps(tmp_path / name)), windows(tmp_path / name)) == (29, 1)


@pytest.mark.framework
@needs("torch")
def test_cells_that_are_run_one_by_one_and_again(tmp_path, run_fork):
    """As in a notebook: code without a file, objects of earlier cells, a cell that runs twice."""
    watched = """
with stepwhy.watch(quiet=True) as run:
    for _ in range(30):
        train(first)
"""
    shown = "print(run.messages, run._repr_html_()[:7], run.run_dir.name)"
    made = textwrap.dedent(_TORCH)
    cells = [made, "train(first)", watched, shown, "train(second)", watched, shown]
    code, out, err = run_fork(
        "torch",
        f"""
    names = {{}}
    for cell in {cells!r}:
        exec(compile(cell, "<cell>", "exec"), names)
    """,
    )
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert [line[:2] for line in lines] == [["()", "<iframe"]] * 2
    for line in lines:
        run_dir = tmp_path / "stepwhy-runs" / line[-1]
        assert (len(steps(run_dir)), windows(run_dir)) == (29, 1)


@pytest.mark.framework
@needs("torch")
def test_processes_that_the_block_starts_are_observed(tmp_path):
    code, out, err = run(
        tmp_path,
        """
    import torch
    import stepwhy

    def train():
        weight = torch.nn.Parameter(torch.ones(8))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(15):
            weight.square().sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        context = torch.multiprocessing.get_context("spawn")
        with stepwhy.watch("out", quiet=True) as run:
            child = context.Process(target=train)
            child.start()
            child.join()
        print(run.messages, run.result.run.framework, child.exitcode)
    """,
    )
    assert (code, out, err) == (0, "() pytorch 0\n", "")
    assert len(steps(tmp_path / "out")) == 14


@pytest.mark.framework
@needs("torch")
def test_explicit_steps_have_precedence_over_optimizer_steps(tmp_path, run_fork):
    code, out, err = run_fork(
        "torch",
        _TORCH
        + """
    with stepwhy.watch("out", quiet=True) as run:
        for _ in range(20):
            with stepwhy.step():
                for _ in range(60):  # more often than an optimizer that would take over
                    first.step()
                train(second)
    print(run.messages, run.result.steps.count)
    """,
    )
    assert (code, err) == (0, "")
    assert (len(steps(tmp_path / "out")), windows(tmp_path / "out")) == (20, 1)
    traced = sum(line["profiled"] for line in steps(tmp_path / "out"))
    assert out == f"() {20 - traced}\n"


@pytest.mark.framework
@needs("torch")
def test_a_framework_that_is_imported_in_the_block_is_observed(tmp_path):
    code, out, err = run(
        tmp_path,
        """
    import stepwhy
    with stepwhy.watch("before", quiet=True) as run:
        pass
    with stepwhy.watch("out", quiet=True) as run:
        import torch
        weight = torch.nn.Parameter(torch.ones(8))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(15):
            weight.square().sum().backward()
            optimizer.step()
    print(run.messages)
    """,
    )
    assert (code, out, err) == (0, "()\n", "")
    assert len(steps(tmp_path / "out")) == 14


@pytest.mark.framework
@needs("tensorflow")
def test_sessions_are_observed_from_block_to_block(tmp_path, run_fork):
    code, out, err = run_fork(
        "tensorflow",
        """
    import tensorflow.compat.v1 as tf
    import stepwhy

    tf.disable_eager_execution()
    weight = tf.get_variable("weight", [8], initializer=tf.ones_initializer())
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(weight)))
    total = tf.reduce_sum(weight)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    with stepwhy.watch("found", quiet=True) as run:
        for _ in range(20):
            session.run(train)
    print(run.messages)
    session.run(train)
    with stepwhy.watch("explicit", quiet=True) as run:
        for _ in range(20):
            session.run(train)
            session.run(total)
            stepwhy.step()
    print(run.messages)
    """,
    )
    assert (code, out) == (0, "()\n()\n"), err
    assert len(steps(tmp_path / "found", "run")) == 20
    assert len(steps(tmp_path / "explicit", "run")) == 40
    assert len(steps(tmp_path / "explicit")) == 19
    assert min(windows(tmp_path / "found"), windows(tmp_path / "explicit")) > 0


@pytest.mark.framework
@needs("keras")
@needs("tensorflow")
def test_keras_is_observed_from_block_to_block(tmp_path, run_fork):
    code, out, err = run_fork(
        "keras",
        """
    import numpy as np
    import keras
    import stepwhy

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.ones((200, 8), "float32"), np.ones((200, 1), "float32")
    for name in ("first", "second"):
        with stepwhy.watch(name, quiet=True) as run:
            model.fit(*data, batch_size=10, verbose=0)
        print(run.messages)
        model.fit(*data, batch_size=10, verbose=0)
    with stepwhy.watch("explicit", quiet=True) as run:
        for _ in range(15):
            with stepwhy.step():
                model.train_on_batch(data[0][:10], data[1][:10])
    print(run.messages)
    """,
    )
    assert (code, out) == (0, "()\n" * 3), err
    names = ("first", "second", "explicit")
    assert [len(steps(tmp_path / name)) for name in names] == [20, 20, 15]
    assert steps(tmp_path / "explicit", "call") == []


@pytest.mark.framework
@needs("jax")
def test_jitted_functions_that_exist_are_observed(tmp_path):
    code, out, err = run(
        tmp_path,
        """
    import jax
    import stepwhy

    update = jax.jit(lambda weight: weight * 0.9)
    weight = update(jax.numpy.ones(8))
    with stepwhy.watch("found", quiet=True) as run:
        for _ in range(20):
            weight = update(weight)
    print(run.messages)
    update(weight)
    with stepwhy.watch("explicit", quiet=True) as run:
        for _ in range(20):
            with stepwhy.step():
                weight = update(update(weight))
    print(run.messages)
    """,
    )
    assert (code, out) == (0, "()\n()\n"), err
    assert len(steps(tmp_path / "found", "call")) == 20
    assert len(steps(tmp_path / "explicit")) == 20
