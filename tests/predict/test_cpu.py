"""Predictions on CPUs: the formulas by hand, and what holds for all inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.predict import price
from stepwhy.predict.calibration import Record
from stepwhy.predict.cpu import TOO_WIDE, predict
from stepwhy.result import Prediction, Refusal
from stepwhy.result.accuracy import PricingInputs
from stepwhy.result.edits import Edit, parse_edit
from stepwhy.trace.notation import parse

NONE = Record()


def predicted(**fields):
    inputs = PricingInputs(**{"step_ns": 1_000_000, "cost_ns": 800_000, **fields})
    found = predict(inputs, NONE)
    return found.remaining_ns, found.low_ns, found.high_ns


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # (1,000,000 - 800,000) = 200,000; 0.4 of it; 1.1 of it and 5 % of the cost
        ({"family": "removed"}, (200_000, 80_000, 260_000)),
        # a quarter of the rest was a wait for a core: 0.75 * 200,000
        ({"family": "removed", "run_delay_share": 0.25}, (150_000, 60_000, 205_000)),
        # half of the programs that wanted a core were others: 0.875 * 200,000
        (
            {"family": "removed", "run_delay_share": 0.25, "runnable_threads": 1.5,
             "background_cores": 1.5},
            (175_000, 70_000, 232_500),
        ),
        # operations of the shortest step take 0.64 of their mean: sqrt(0.64) * 200,000
        (
            {"family": "removed", "floor_ns": 64_000, "compute_ns": 100_000},
            (160_000, 80_000, 260_000),
        ),
        # a small part of the step, 0.1 of 0.55: (1 - 0.6 * 0.1 / 0.55) * 900,000, and 1.1 of it
        ({"family": "removed", "cost_ns": 100_000}, (900_000, 801_818, 995_000)),
        # saving runs beside no operation, so these take at least 0.75 of their shortest times
        (
            {"family": "removed", "floor_ns": 160_000, "inflates_operations": False},
            (200_000, 120_000, 260_000),
        ),
        # 1,200,000 of CPU time on two cores take at least 600,000
        (
            {"family": "overlapped", "cpu_ns": 1_200_000, "cores": 2, "work_ns": 800_000},
            (800_000, 720_000, 960_000),
        ),
        (
            {
                "family": "overlapped",
                "cpu_ns": 1_200_000,
                "cores": 2,
                "work_ns": 800_000,
                "workers": 2,
            },
            (600_000, 540_000, 720_000),
        ),
        # beside an accelerator: 800,000 of work among 4 workers, no less than the rest
        (
            {"family": "overlapped", "cost_ns": 300_000, "work_ns": 800_000, "workers": 4,
             "on_accelerator": True},
            (700_000, 686_139, 770_000),
        ),
        # 0.85 * 200,000; 1,000,000 - 0.25 * 800,000
        ({"family": "replaced"}, (200_000, 170_000, 800_000)),
    ],
)  # fmt: skip
def test_formulas_by_hand(fields, expected):
    assert predicted(**fields) == pytest.approx(expected, abs=2)


times = st.integers(1_000, 10_000_000_000)
INPUTS = st.builds(
    lambda step, share, **rest: PricingInputs(step_ns=step, cost_ns=int(share * step), **rest),
    step=times,
    share=st.floats(0, 1),
    family=st.sampled_from(["removed", "overlapped", "replaced"]),
    cores=st.none() | st.integers(1, 64),
    cpu_ns=st.none() | times,
    run_delay_share=st.none() | st.floats(0, 1),
    runnable_threads=st.none() | st.floats(0, 99),
    background_cores=st.none() | st.floats(0, 99),
    compute_ns=st.none() | times,
    floor_ns=st.none() | times,
    work_ns=st.none() | times,
    workers=st.none() | st.integers(1, 8),
    on_accelerator=st.booleans(),
    inflates_operations=st.booleans(),
    removes_operations=st.booleans(),
)


@given(INPUTS)
def test_the_gain_is_between_nothing_and_the_step(inputs):
    found = predict(inputs, NONE)
    assert 0 <= found.low_ns <= found.remaining_ns <= found.high_ns <= inputs.step_ns
    low, high = found.gain_ns
    assert 0 <= low <= high <= inputs.step_ns


@given(INPUTS, st.floats(0, 1))
def test_a_larger_cost_leaves_no_longer_step(inputs, share):
    # Work of which nothing is known is as long as its cost, and more work takes longer.
    inputs = replace(inputs, work_ns=inputs.work_ns or inputs.cost_ns)
    smaller = replace(inputs, cost_ns=int(share * inputs.cost_ns))
    assert predict(inputs, NONE).remaining_ns <= predict(smaller, NONE).remaining_ns + 1


@given(INPUTS)
def test_nothing_removed_gains_nothing(inputs):
    found = predict(replace(inputs, cost_ns=0), NONE)
    assert found.gain_ns == (0, 0)


PROGRAM = """
unit: 1 ms
framework: pytorch
signals: +step-log
main   step    |[------------------]|
main   python  |          pppppppppp|
CPU:0  kernel  |kkkkkkmmmm          |  k=aten::conv2d  m=aten::mm
marks: start_ns | dur_ns | profiled | cpu_ns
0 ms | 20 ms | 1 | 15 ms
20 ms | 20 ms | 0 | 15 ms
40 ms | 20 ms | 0 | 15 ms
"""


@pytest.fixture(scope="module")
def facts():
    return Facts(parse(PROGRAM))


def test_a_part_of_the_breakdown(facts):
    found = price(facts, [parse_edit("python=gone")], NONE)
    assert isinstance(found, Prediction)
    assert (found.family, found.method) == ("removed", "cpu")
    assert found.step_ns == 20_000_000
    assert found.remaining_ns == found.naive_ns == facts.wall_ns - facts.breakdown["python"]


def test_operations_by_their_name(facts):
    found = price(facts, [parse_edit("ops:aten::m*=2x")], NONE)
    assert found.naive_ns == 18_000_000  # 4 ms of multiplications are twice as fast
    assert found.family == "replaced"


def test_faster_is_never_slower(facts):
    steps = [price(facts, [parse_edit(f"python={k}x")], NONE).remaining_ns for k in (1, 2, 4, 99)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == facts.wall_ns


def test_removed_operations_leave_the_others_as_they_were(facts):
    alone = price(facts, [parse_edit("ops:aten::m*=gone")], NONE)
    assert alone.remaining_ns == alone.naive_ns == 16_000_000
    disturbed = {
        "family": "removed", "cost_ns": 500_000, "run_delay_share": 0.2, "runnable_threads": 2.0,
        "compute_ns": 900_000, "floor_ns": 600_000,
    }  # fmt: skip
    assert predicted(**disturbed, removes_operations=True)[0] == 500_000
    assert predicted(**disturbed)[0] < 400_000


def test_edits_together_gain_no_more_than_their_costs(facts):
    edits = [Edit("python", "gone", cost_ns=6_000_000), Edit("ops", "fused", cost_ns=1_000_000)]
    found = price(facts, edits, NONE)
    assert (found.naive_ns, found.family) == (13_000_000, "replaced")


@pytest.mark.parametrize(
    ("edit", "is_predicted"),
    [
        # 0.85 * 9 ms to 20 ms - 0.25 * 11 ms: 48 % of the step
        (Edit("ops", "fused", cost_ns=11_000_000), False),
        # 0.85 * 12 ms to 20 ms - 0.25 * 8 ms: 39 %
        (Edit("ops", "fused", cost_ns=8_000_000), True),
        (Edit("python", "gone", cost_ns=8_000_000), True),
    ],
)
def test_a_wide_interval_is_no_prediction(facts, edit, is_predicted):
    found = price(facts, [edit], NONE)
    assert isinstance(found, Prediction) == is_predicted
    assert is_predicted or found.reason == TOO_WIDE


@pytest.mark.parametrize(
    ("framework", "device", "is_refused"),
    [
        ("pytorch", "CPU:0", True),
        ("jax", "CPU:0", True),
        ("tensorflow", "CPU:0", False),  # threads of tf.data
        ("pytorch", "GPU:0", False),
    ],
)
def test_worker_processes_beside_operations_on_cpus_have_no_price(framework, device, is_refused):
    program = PROGRAM.replace("pytorch", framework).replace("CPU:0", device)
    edit = Edit("input", "workers", count=2, cost_ns=8_000_000)
    found = price(Facts(parse(program)), [edit], NONE)
    said = found.reason if isinstance(found, Refusal) else ""
    assert said.startswith("Worker processes compete") == is_refused


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ("memory=gone", "The time of the step that memory=gone is about is not known."),
        ("ops=on:GPU:0", "No operation ran on GPU:0, so its speed is not known."),
    ],
)
def test_what_is_not_known_has_no_price(facts, edit, reason):
    found = price(facts, [parse_edit(edit)], NONE)
    assert isinstance(found, Refusal)
    assert found.reason == reason


def test_a_trace_that_shows_no_step_has_no_price():
    found = price(Facts(parse("unit: 1 ms\nmain op |          |")), [parse_edit("python=gone")])
    assert isinstance(found, Refusal)
