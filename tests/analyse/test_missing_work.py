"""Device work that a trace lacks: launches without work, and work without time."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.missing_work import MissingWork
from stepwhy.result.reasons import Gap, Lack
from stepwhy.trace import Kind

LAUNCH = "cudaLaunchKernel"


def loop(*, name=LAUNCH, lost=(), untimed=(), launches=100, unit_ns=7_000, kernel="gemm"):
    """A step of launches, one per 10 units, whose kernels run for 8; some are lost or untimed."""
    line = Timeline(unit_ns).steps(0, 10 * launches)
    for i in range(launches):
        at = 10 * i
        line.add(line.thread(), Kind.LAUNCH, at, at + 1, name=name, correlation=i + 1)
        if i not in lost:
            end = at + 2 if i in untimed else at + 10
            line.add(line.stream(), Kind.KERNEL, at + 2, end, name=kernel, correlation=i + 1)
    return line


def missing(line):
    return Facts(line.trace()).missing_work


def every(*numbers):
    """The launches whose number leaves one of some remainders when divided by 20."""
    return {i for i in range(100) if i % 20 in numbers}


def test_a_whole_trace_lacks_nothing():
    assert missing(loop()) == MissingWork(100, 0, 100, 0)
    assert missing(loop()).share == 0


def test_launches_without_work():
    found = missing(loop(lost=every(3, 9, 14, 17, 18)))
    assert (found.launches, found.lost, found.recorded, found.share) == (100, 25, 75, 0.25)


def test_the_more_is_missing_the_less_sure_is_the_verdict():
    confidences = [
        decide(Facts(loop(lost=every(*range(count))).trace())).confidence for count in (0, 1)
    ]
    decision = decide(Facts(loop(lost=every(0, 1)).trace()))
    assert confidences == [1.0, 0.5]
    assert decision.reason == Gap(Lack.DEVICE_WORK, 0.1)
    assert decision.confidence == 0


def test_one_of_two_devices_without_any_work():
    line = Timeline(7_000).steps(0, 1000)
    for i in range(100):
        line.add(line.thread(), Kind.LAUNCH, 10 * i, 10 * i + 1, name=LAUNCH, correlation=i + 1)
        if not i % 2:
            line.add(line.stream(), Kind.KERNEL, 10 * i + 2, 10 * i + 20, correlation=i + 1)
    line.stream("GPU:1")
    facts = Facts(line.trace())
    assert facts.missing_work.share == pytest.approx(0.5, abs=0.01)
    assert decide(facts).reason.lack == Lack.DEVICE_WORK


def test_a_profile_may_end_before_the_work_of_its_last_launches():
    assert missing(loop(lost={98, 99})).share == 0
    assert missing(loop(lost={97, 98, 99})).share == 0.03


def test_a_single_launch_without_work_shows_nothing():
    found = missing(loop(lost={50}))
    assert (found.lost, found.count, found.share) == (1, 0, 0)


@pytest.mark.parametrize("name", ["cudaMemsetAsync", "cudaGraphLaunch", "waitOnEvent"])
def test_calls_that_need_not_cause_work(name):
    line = loop()
    for i in range(50):
        line.add(line.thread(), Kind.LAUNCH, 10 * i + 3, 10 * i + 4, name=name, correlation=900 + i)
    assert missing(line).share == 0


def test_graphs_without_work_where_other_graphs_have_some():
    line = loop(name="cudaGraphLaunch", lost=every(1, 2))
    assert missing(line).lost == 10


def test_launches_that_a_capture_only_adds_to_a_graph():
    line = loop()
    line.add(line.thread(), Kind.RUNTIME, 1000, 1001, name="cudaStreamBeginCapture_v10000")
    for i in range(50):
        at = 1002 + i
        line.add(line.thread("backward"), Kind.LAUNCH, at, at + 1, name=LAUNCH, correlation=900 + i)
    line.add(line.thread(), Kind.RUNTIME, 1100, 1101, name="cudaStreamEndCapture_v10000")
    line.steps(1000, 1200)
    assert missing(line).lost == 0


def test_a_driver_call_inside_a_runtime_call_lacks_no_work():
    line = loop()
    for i in range(100):
        at = 10 * i + 0.25
        line.add(line.thread(), Kind.LAUNCH, at, at + 0.5, name="cuLaunchKernel", correlation=i + 1)
    assert missing(line).share == 0


def test_launches_outside_of_the_steady_steps_do_not_count():
    line = loop()
    for i in range(50):
        at = 1010 + i
        line.add(line.thread(), Kind.LAUNCH, at, at + 1, name=LAUNCH, correlation=900 + i)
    assert missing(line).share == 0


def test_kernels_without_a_duration():
    found = missing(loop(untimed=every(5), unit_ns=7_001))
    assert (found.untimed, found.share) == (5, 0.05)
    assert missing(loop(untimed=range(100))).share == 1


def test_whole_microseconds_round_short_kernels_to_zero():
    line = loop(untimed=every(5), unit_ns=1_000)  # kernels of 8 us
    assert missing(line).untimed == 5
    line = loop(unit_ns=1_000)
    for i, end in enumerate((900, 901) * 20):
        line.add(line.stream(), Kind.KERNEL, 900, end, name="fill", correlation=500 + i)
    assert missing(line).untimed == 0
