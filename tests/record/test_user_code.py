"""Which line of the program is named as a cause."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepwhy.record.core import user_code
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
