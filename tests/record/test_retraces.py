"""Reasons why a function is traced again."""

from __future__ import annotations

from stepwhy.record.watchers.retraces import Argument, Retraces, explain, of_value


class Compiled:
    pass


def batch(shape: str, dtype: str = "float32", placement: str = "") -> Argument:
    return Argument("TensorSpec", dtype, shape, placement)


def retraces() -> Retraces:
    return Retraces("repeated", "unchanged")


def test_the_first_trace_has_no_reason() -> None:
    assert retraces().add("code", Compiled(), {"batch": batch("(4,)")}) == ("", 1)


def test_the_nearest_earlier_trace_is_compared() -> None:
    seen, owner = retraces(), Compiled()
    seen.add("code", owner, {"batch": batch("(4,)"), "scale": of_value(1)})
    seen.add("code", owner, {"batch": batch("(5,)"), "scale": of_value(2)})
    reason = seen.add("code", owner, {"batch": batch("(4,)"), "scale": of_value(3)})
    assert reason == ("scale: 1 -> 3", 3)
    reason = seen.add("code", owner, {"batch": batch("(5,)"), "scale": of_value(7)})
    assert reason == ("scale: 2 -> 7", 4)


def test_the_same_arguments() -> None:
    seen, first, second = retraces(), Compiled(), Compiled()
    arguments = {"batch": batch("(4,)")}
    seen.add("code", first, arguments)
    assert seen.add("code", first, arguments) == ("unchanged", 2)
    assert seen.add("code", second, arguments) == ("repeated", 3)
    assert seen.add("other code", second, arguments) == ("", 1)


def test_unknown_arguments_give_no_reason() -> None:
    seen, owner = retraces(), Compiled()
    assert seen.add("code", owner, None) == ("", 1)
    assert seen.add("code", owner, {"scale": of_value(1)}) == ("", 2)
    assert seen.add("code", owner, None) == ("", 3)


def test_deleted_object_counts_as_another_one() -> None:
    seen = retraces()
    for expected in ("", "repeated", "repeated"):
        assert seen.add("code", Compiled(), {})[0] == expected


def test_differences_are_named() -> None:
    earlier = {"a": batch("(4,)"), "b": batch("(4,)"), "c": of_value("secret"), "d": of_value(None)}
    later = {"a": batch("(5,)", "int8"), "b": batch("(4,)", placement="cpu:1"), "e": of_value(True)}
    later["c"] = of_value("other")
    assert explain(earlier, later) == (
        "a: shape (4,) -> (5,), dtype float32 -> int8; b: placement anywhere -> cpu:1; "
        "e: added, True; and 2 more"
    )
    assert explain({"c": of_value("secret")}, {"c": of_value("other")}) == "c: another str"
    assert explain({"d": of_value(3)}, {"d": batch("(4,)")}) == "d: 3 -> float32 (4,)"
    assert explain({"d": of_value(3)}, {}) == "d: no longer given"


def test_values_are_distinguished_without_storing_them() -> None:
    assert of_value([1]) != of_value([1])
    assert of_value("x") == of_value("x")
    assert "x" not in str(of_value("x"))


def test_memory_is_bounded_for_programs_that_keep_creating_functions() -> None:
    seen = retraces()
    for code in range(2000):
        seen.add(code, Compiled(), {})
    assert len(seen._known) == 512
