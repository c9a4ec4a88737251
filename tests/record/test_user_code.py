"""Which line of the program is named as a cause."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from stepwhy.record.core import user_chains, user_code
from stepwhy.record.core.user_chains import Chained, user_chain
from stepwhy.record.core.user_code import UserFiles

LIBRARY = "def call(function):\n    return function()\n"


def compiled(path: str, source: str, name: str) -> object:
    scope: dict[str, object] = {}
    exec(compile(source, path, "exec"), scope)  # noqa: S102
    return scope[name]


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    files = UserFiles("/program")
    monkeypatch.setattr(user_code, "_files", lambda: files)


def test_frames_of_libraries_and_rewritten_copies_are_skipped() -> None:
    library = f"{Path(sys.prefix)}/lib/python3.11/site-packages/package/module.py"
    inner = compiled(library, LIBRARY, "call")
    rewritten = compiled("/tmp/__autograph_generated_file1.py", LIBRARY, "call")  # noqa: S108
    train = compiled(
        "/program/train.py", "\n\ndef train(a, b, f):\n    return a(lambda: b(f))\n", "train"
    )
    assert train(inner, rewritten, user_code.user_line) == "train.py(4): <lambda>"  # type: ignore[operator]


def test_without_a_frame_of_the_program_there_is_no_line() -> None:
    class Code:
        co_filename = "<string>"

    class Frame:
        f_code = Code
        f_back = None

    assert user_code.user_line(Frame()) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["a\0b", "\ud800.py", "gone.py"])
def test_code_may_have_any_file_name(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert UserFiles("/program").user_name(path) is None


def test_what_can_be_called_begins_at_a_line_of_the_program() -> None:
    source = "\nclass Hook:\n    def __call__(self):\n        pass\n\n\ndef f():\n    pass\n"
    function, hook = (compiled("/program/train.py", source, name) for name in ("f", "Hook"))
    assert user_code.code_line(function) == "train.py(7): f"
    assert user_code.code_line(hook()) == "train.py(3): __call__"  # type: ignore[operator]
    assert [user_code.code_line(one) for one in (len, sys.exit, Path.open, 3)] == [""] * 4


DATA_LIBRARY = """
class Data:
    def __init__(self):
        made.append(user_chain())
    def of(*arguments, **named):
        return Data()
    map = batch = shuffle = of
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a program, and returns the calls that have made its data."""
    files = UserFiles(str(tmp_path))
    monkeypatch.setattr(user_code, "_files", lambda: files)
    monkeypatch.setattr(user_chains, "_known", {})

    def run(source: str, written: str | None = None) -> list[Chained]:
        scope: dict[str, Any] = {"made": [], "user_chain": user_chain}
        library = f"{Path(sys.prefix)}/lib/python3.11/site-packages/data/data.py"
        exec(compile(DATA_LIBRARY, library, "exec"), scope)  # noqa: S102
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(source if written is None else written), "utf-8")
        exec(compile(textwrap.dedent(source), str(path), "exec"), scope)  # noqa: S102
        return list(scope["made"])

    return run


def test_a_chain_over_several_lines_is_one_statement(made: Any) -> None:
    source = """\
    images = (
        Data.of(range(9))   # é
        .map(lambda é: é,
             calls=2)
        .batch(
            8
        )
    )
    """
    statement = "images = Data.of(range(9)).map(lambda é: é, calls=2).batch(8)"
    assert made(source) == [
        Chained("train.py(2): <module>", statement, 0),
        Chained("train.py(3): <module>", statement, 1),
        Chained("train.py(5): <module>", statement, 2),
    ]


def test_calls_in_one_line_differ_in_their_places(made: Any) -> None:
    source = """\
    def build(names, shuffled=True):
        rows = Data.of(names)
        if shuffled:
            rows = rows.shuffle(9)
        return rows.map(str).batch(2)

    for _ in [build([1])]: pass
    """
    assert made(source) == [
        Chained("train.py(2): build", "rows = Data.of(names)", 0),
        Chained("train.py(4): build", "rows = rows.shuffle(9)", 0),
        Chained("train.py(5): build", "return rows.map(str).batch(2)", 0),
        Chained("train.py(5): build", "return rows.map(str).batch(2)", 1),
    ]


def test_a_chain_in_another_expression_stands_alone(made: Any) -> None:
    source = "fit(Data.of(1).batch(2)) if 0 else print(Data.of(2).batch(3), end='')\n"
    found = [(each.statement, each.place) for each in made(source)]
    assert found == [("Data.of(2).batch(3)", 0), ("Data.of(2).batch(3)", 1)]


def test_a_decorator_is_no_call_of_a_chain(made: Any) -> None:
    source = """\
    @Data.of(3).map
    def rows(x):
        return x
    """
    assert [each.statement for each in made(source)] == ["Data.of(3)", ""]


def test_of_a_very_long_chain_only_the_call_is_kept(made: Any) -> None:
    arguments = ", ".join(map(str, range(200)))
    found = made(f"rows = Data.of({arguments}).batch(2)\n")
    assert [(each.statement, each.place) for each in found] == [("", 0), ("dataset.batch(2)", 0)]


@pytest.mark.parametrize("written", ["", "rows = (", "\n\nrows = other(2)\n"])
def test_a_file_that_has_changed_shows_nothing(made: Any, written: str) -> None:
    assert made("rows = Data.of(1)\n", written) == [Chained("train.py(1): <module>")]


def test_a_program_that_builds_data_in_many_places_is_not_examined_for_ever(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_chains, "_MOST_CALLS", 1)
    found = made("rows = Data.of(1)\nrows = rows.batch(2)\n")
    assert [each.statement for each in found] == ["rows = Data.of(1)", ""]


SPAWNING = """
import multiprocessing
from stepwhy.record.core.user_code import user_line

print(user_line(), flush=True)  # in the child before its main module is known

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print)
    child.start()
    child.join()
"""


def test_lines_have_the_same_names_in_spawned_processes(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(SPAWNING)
    command = [sys.executable, "job/train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
    assert done.stdout.split("\n")[:2] == ["train.py(5): <module>"] * 2
