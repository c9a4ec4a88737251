from msgspec.structs import replace

from stepwhy.result import Traced
from stepwhy.result.abstentions import Abstention
from stepwhy.show import advice


def test_trace_without_steps_gets_advice_to_mark_them(sample):
    assert advice.next_steps(sample("unknown"))[0].startswith("Mark the steps: call prof.step()")


def test_advice_is_for_the_profiler_that_wrote_the_file(sample):
    for name, advised in (("unknown", "a range of NVTX"), ("no_devices", "nsys profile --trace")):
        result = sample(name)
        files = tuple(replace(file, format="nsys") for file in result.inputs)
        assert any(advised in text for text in advice.next_steps(replace(result, inputs=files)))


def test_advice_on_damaged_input_comes_first(sample):
    assert advice.next_steps(sample("truncated"))[0] == (
        "The file ends inside an event; copy it again."
    )


def test_advice_to_record_missing_devices(sample):
    assert "Record device activity as well." in advice.next_steps(sample("no_devices"))


def test_there_is_always_advice(any_result):
    steps = advice.next_steps(any_result)
    assert steps
    assert ("stepwhy run" in steps[-1]) == (any_result.steps.source != "hook")


def test_watched_run_is_not_advised_to_use_stepwhy_run(sample):
    watched = replace(sample("unknown"), steps=replace(sample("unknown").steps, source="hook"))
    assert advice.next_steps(watched)[-1].startswith("Check what the loop does between")
    verdict = replace(watched.verdict, abstention=Abstention("missing-signal", ("last-wait",)))
    assert advice.next_steps(replace(watched, verdict=verdict)) == [advice._WAIT_LAST]
    untraced = replace(watched, devices=())
    assert advice.next_steps(untraced)[-1].startswith("Train for at least 20 steps")
    traced = replace(untraced, steps=replace(untraced.steps, traced=(Traced(5, 4),)))
    assert advice.next_steps(traced)[-1].startswith("Wait for the device in every step")
    profiled = replace(untraced.run, untraced_advice="Stop that profiler")
    assert advice.next_steps(replace(untraced, run=profiled))[-1] == "Stop that profiler."
    assert advice.next_steps(replace(traced, run=profiled))[-1] == "Stop that profiler."
    without_framework = replace(untraced, run=replace(untraced.run, framework=""))
    assert advice.next_steps(without_framework) == [advice._NO_FRAMEWORK]


def test_where_kernels_are_missing_the_verdict_says_what_to_do(sample):
    result, record = sample("no_devices"), "Record device activity as well."
    assert record in advice.next_steps(result)
    abstention = Abstention("missing-signal", ("kernels",))
    found = replace(result, verdict=replace(result.verdict, abstention=abstention))
    assert record not in advice.next_steps(found)
    watched = replace(found, steps=replace(found.steps, source="hook"))
    assert advice.next_steps(watched) == []
