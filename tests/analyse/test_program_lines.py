"""Lines of the program, and of the standard library."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.lines.program_lines import has_program_line, is_of_library
from stepwhy.trace import Kind
from stepwhy.trace.notation import parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("weakref.py(427): __setitem__", True),
        ("threading.py(320): wait", True),
        ("lib/python3.11/threading.py(320): wait", True),
        ("json/encoder.py(200): encode", True),
        ("train.py(42): step", False),
        ("models/random.py(4): forward", False),
        ("profile.py(12): <module>", False),  # a script of the user
        ("torch/random.py(4): seed", False),
        ("", False),
    ],
)
def test_the_standard_library_is_recognised_by_its_modules(line, expected):
    assert is_of_library(line) is expected


def test_no_line_at_all():
    assert not has_program_line(parse("main op |oo|")).any()


@pytest.mark.parametrize("kind", [Kind.FRAMEWORK, Kind.SYNC, Kind.COMPILE, Kind.STORAGE])
def test_a_function_of_the_framework_is_no_line_of_the_program(kind):
    run = Timeline()
    line = "api.py(3154): block_until_ready"
    run.add(run.thread(), kind, 0, 10, name=line, source=line)
    run.add(run.thread(), kind, 10, 20, name="Wait", source="train.py(7): main")
    run.add(run.thread(), Kind.PYTHON, 20, 30, name="train.py(7): main", source="train.py(7): main")
    assert has_program_line(run.trace()).tolist() == [False, True, True]
