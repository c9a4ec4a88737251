"""What a frame has called that is not written in Python."""

import inspect
import sys
import time

import pytest

from stepwhy.record.steps.native_calls import called_natively


class Nasty:
    """A key whose comparison looks at the frame that sorts it."""

    def __init__(self, seen):
        self.seen = seen

    def __lt__(self, other):
        self.seen.append(called_natively(sys._getframe(1)))
        return False


@pytest.fixture
def keys():
    seen = []
    return [Nasty(seen), Nasty(seen)]


def test_a_builtin_function_is_named_with_its_module(keys):
    sorted(keys)
    assert keys[0].seen == ["builtins: sorted"]


def test_a_method_is_named_with_the_module_of_its_class(keys):
    keys.sort()
    assert keys[0].seen == ["builtins: sort"]


def test_a_call_over_several_lines_and_within_another_one(keys):
    # "ä" takes two bytes.
    found = [
        "ä", len(sorted(
            keys,
        )),
    ]  # fmt: skip
    assert found == ["ä", 2]
    assert keys[0].seen == ["builtins: sorted"]


def test_an_attribute_is_found_without_running_code(keys):
    asked = []

    class Holder:
        @property
        def order(self):
            asked.append(1)
            return sorted

    Holder().order(keys)
    holder = Holder()
    holder.order(keys)
    holder.__dict__["arrange"] = sorted
    holder.arrange(keys)
    assert len(asked) == 2
    assert keys[0].seen == ["", "builtins: order", "builtins: arrange"]


def test_what_is_no_call_of_a_name_is_unknown(keys):
    assert not keys[0] < keys[1]
    [sorted][0](keys)
    assert keys[0].seen == ["", ""]


def test_a_frame_in_python_is_not_native():
    assert called_natively(inspect.currentframe()) != "time: sleep"
    time.sleep(0)
    generated = {"look": lambda: called_natively(sys._getframe(1)), "seen": []}
    exec("seen.append(look())", generated)  # noqa: S102 - code without a source
    assert generated["seen"] == [""]
