"""What fixing a loop of small operations may save."""

from types import SimpleNamespace

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.host.eager_loop import diagnose
from stepwhy.trace import Kind, Phase

# 100 operations of 20 us at one line, 20 us apart, of which Python is at no known line; then their
# backward pass, and another line.
LOOP_MS, OTHER_MS = 4, 1


@pytest.mark.parametrize(("backward_ms", "most_ms"), [(0, 4), (3, 5), (7, 6)])
def test_the_time_of_the_line_may_be_saved_up_to_half_more_than_the_cost(backward_ms, most_ms):
    drawn, end = Timeline(), LOOP_MS + backward_ms + OTHER_MS
    drawn.steps(0, end)
    thread = drawn.thread()
    for at in range(100):
        span = thread, Kind.OP, at * 0.04, at * 0.04 + 0.02
        drawn.add(*span, name="aten::mul", source="train.py(9): cell")
    if backward_ms:
        span = thread, Kind.OP, LOOP_MS, LOOP_MS + backward_ms
        drawn.add(*span, name="aten::bmm", source="train.py(9): cell", phase=Phase.BACKWARD)
    drawn.add(thread, Kind.OP, end - OTHER_MS, end, name="aten::mm", source="train.py(20): head")
    saving = diagnose(Facts(drawn.trace(framework="pytorch"))).saving
    assert saving.high_ns == pytest.approx(most_ms * MS, rel=0.1)


@pytest.mark.parametrize(("repeats", "verdict"), [(4, "clear"), (10, "found")])
def test_a_small_model_that_is_called_a_few_times_is_no_loop(repeats, verdict):
    drawn = Timeline().steps(0, 5)
    for at in range(100):
        span = drawn.thread(), Kind.OP, at * 0.04, at * 0.04 + 0.02
        drawn.add(*span, name=f"aten::op{at % (100 // repeats)}")
    assert diagnose(Facts(drawn.trace(framework="pytorch"))).verdict == verdict


CALL_MS = 0.02


def eager_jax(lines, gradient="train.py(40): loss_of", name="dot.1"):
    """Two steps that run an operation at each line, beside a compiled gradient of a line."""
    drawn, length = Timeline(), len(lines) * CALL_MS + 1
    drawn.steps(0, length, 2 * length)
    for step in range(2):
        begin = step * length
        for at, (line, operation) in enumerate(lines):
            start = begin + at * CALL_MS
            span = drawn.thread(), Kind.FRAMEWORK, start, start + CALL_MS / 2
            drawn.add(*span, name=f"PjitFunction({operation})", source=line)
        span = drawn.thread("worker"), Kind.OP, begin + length - 1, begin + length - 0.5
        drawn.add(*span, name=name, source=gradient, phase=Phase.BACKWARD)
    return diagnose(Facts(drawn.trace(framework="jax")))


def at(*numbers, function="augment"):
    return [(f"data.py({n}): {function}", f"op{n}") for n in numbers]


SAMPLES = at(6, 7, 7, 8) * 30
CLASSES = at(3, 4) + at(6, 7, 7, 8) * 30


def test_a_function_that_is_called_per_sample_is_mapped_over_the_batch():
    fix = eager_jax(SAMPLES).fix
    assert "augment is called once per sample" in fix.text
    mapped = {"augment": abs, "samples": [-1, 2], "keys": [0, 0]}
    jax = SimpleNamespace(jit=lambda f: f, vmap=lambda f: lambda xs, _: [f(x) for x in xs])
    exec(fix.code, mapped | {"jax": jax}, found := {})  # noqa: S102 - code of this package
    assert found["results"] == [1, 2]


def test_a_loop_within_a_function_is_compiled_with_it():
    fix = eager_jax(CLASSES).fix
    assert "augment runs its operations one by one" in fix.text
    assert fix.code.startswith("augment = jax.jit(augment)")


def test_a_lambda_belongs_to_the_function_that_it_stands_in():
    update = [("train.py(14): update", "multiply")] * 40
    update += [("train.py(14): <lambda>", "add"), ("train.py(9): <lambda>", "add")] * 30
    assert "but update runs" in eager_jax(update).fix.text


@pytest.mark.parametrize("function", ["main", "<module>", "<lambda>"])
def test_operations_in_the_loop_itself_are_moved_into_a_function(function):
    fix = eager_jax(at(6, 7, 7, 8, function=function) * 30).fix
    assert fix.text.startswith("The gradient is compiled already, but the loop runs other")


def test_what_calls_several_functions_is_compiled():
    lines = [one for name in "abc" for one in at(6, 7, 7, 8, function=name)] * 10
    text = eager_jax(lines).fix.text
    assert "but a, b and c are called once per sample and run their operations" in text
    assert "Map the function that calls them over the batch" in text


def test_of_many_functions_none_is_named():
    lines = [one for name in "abcdefghijkl" for one in at(6, 7, 7, 8, function=name) * 3]
    assert "Move them into the compiled step" in eager_jax(lines).fix.text


@pytest.mark.parametrize(
    "gradient",
    [
        {"gradient": "data.py(7): augment"},  # the model itself
        {"name": "wrapped_negate"},  # of an activation, which has a compiled gradient of its own
    ],
)
def test_without_a_compiled_gradient_beside_it_the_whole_step_is_compiled(gradient):
    assert eager_jax(SAMPLES, **gradient).fix.text.startswith("Compile the whole step")
