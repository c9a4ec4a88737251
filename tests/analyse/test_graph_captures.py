"""Captures of device work into a graph: they run nothing, and are set-up."""

from tests.analyse.timeline import Timeline

from stepwhy.analyse.activity.graph_captures import capture_time
from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.trace import Kind, Role


def captures(count=6, *, warm=True):
    """A model that is captured piece by piece, 10 ms each, after a few kernels to warm up."""
    line, thread = Timeline(), None
    thread = line.thread()
    for i in range(count):
        at = 12 * i
        for name, when in (("cudaStreamBeginCapture", 1), ("cudaStreamEndCapture", 10)):
            line.add(thread, Kind.RUNTIME, at + when, at + when + 0.5, name=name)
        for piece, when in (("aten::mm", 2), ("aten::add", 5)):
            line.add(thread, Kind.OP, at + when, at + when + 2, name=piece)
            launch = {"name": "cudaLaunchKernel", "correlation": 10 * i + when}
            line.add(thread, Kind.LAUNCH, at + when + 0.5, at + when + 1, **launch)
        line.add(thread, Kind.SYNC, at + 11, at + 11.9, name="cudaStreamSynchronize")
        if warm:
            line.launch((at + 0.1, at + 0.2), (at + 0.2, at + 0.4), 500 + i)
    return line


def test_the_time_of_captures():
    captured = capture_time(captures(2).trace())
    assert captured.starts.tolist() == [1_000_000, 13_000_000]
    assert captured.ends.tolist() == [10_500_000, 22_500_000]


def test_captures_of_two_threads_and_those_without_an_end():
    line = captures(1)
    other = line.builder.track(Role.HOST_THREAD, "other", process=1, thread=99)
    for name, at in (("hipStreamBeginCapture", 3), ("hipStreamEndCapture", 40)):
        line.add(other, Kind.RUNTIME, at, at + 1, name=name)
    line.add(line.thread(), Kind.RUNTIME, 80, 81, name="cudaStreamBeginCapture")
    captured = capture_time(line.trace())
    assert (captured.starts.tolist(), captured.ends.tolist()) == ([1_000_000], [41_000_000])


def test_captures_are_set_up_and_no_steps():
    facts = Facts(captures().trace(framework="pytorch"))
    assert facts.steps.source == "whole-trace"
    assert facts.missing_work.share == 0
    assert decide(facts).bound_by == "startup"
