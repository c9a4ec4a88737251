import itertools

import numpy as np
import pytest
from msgspec import structs
from tests.show.conftest import a_breakdown, some_steps

from stepwhy.result import CATEGORIES, Evidence, Finding, Fix, Op, ParallelUse, Stretch
from stepwhy.show import words
from stepwhy.show.sections import explained_sentence, risk

MS = 1_000_000


def test_every_category_has_words_in_the_order_of_the_contract():
    assert tuple(words.CATEGORY_WORDS) == CATEGORIES


def test_marks_and_colours_are_distinct():
    styles = words.CATEGORY_WORDS.values()
    assert len({style.mark for style in styles}) == len(CATEGORIES)
    assert len({style.colour for style in styles}) == len(CATEGORIES)


# Linear RGB as seen without one kind of cone, at full severity. Source: Machado,
# Oliveira and Fernandes, A physiologically-based model for simulation of color vision
# deficiency, 2009, table 1.
SIGHT = {
    "normal": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
# Linear RGB to OKLab in two steps. Source: bottosson.github.io/posts/oklab
TO_LMS = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
TO_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def oklab(colour, sight):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    return np.array(TO_LAB) @ np.cbrt(np.array(TO_LMS) @ seen)


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_differ_for_every_kind_of_vision(sight):
    seen = {name: oklab(style.colour, sight) for name, style in words.CATEGORY_WORDS.items()}
    distances = {
        pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]])
        for pair in itertools.combinations(seen, 2)
    }
    assert {pair for pair, distance in distances.items() if distance < 0.08} == set()


@pytest.mark.parametrize(
    ("ns", "wall_ns", "expected"),
    [
        (46_100_000, 62_400_000, "46.1 ms"),
        (812_000, 62_400_000, "0.8 ms"),
        (1_000, 62_400_000, "<0.1 ms"),
        (0, 62_400_000, "0.0 ms"),
        (900_000_000, 1_500_000_000, "0.90 s"),
        (7, 12, "7 ns"),
        (180 * MS, 181 * MS, "180 ms"),
    ],
)
def test_part_has_unit_and_precision_of_the_whole(ns, wall_ns, expected):
    assert words.format_like(ns, wall_ns) == expected


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "expected"),
    [
        (38, 45, "38 to 45 ms"),
        (0, 2, "up to 2.0 ms"),
        (-3, 4, "up to 4.0 ms"),
        (38.2, 38.4, "about 38 ms"),
        (0.9, 1.1, "900 µs to 1.1 ms"),
        (123, 148, "120 to 150 ms"),
    ],
)
def test_a_saving_has_two_digits(low_ms, high_ms, expected):
    assert words.format_saving(round(low_ms * MS), round(high_ms * MS)) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (46_100_000, "ns", "46.1 ms"),
        (33_554_432, "bytes", "32.0 MiB"),
        (0.98, "fraction", "98 %"),
        (4120, "count", "4,120"),
        (0.5, "count", "0.5"),
        (2.4, "images/s", "2.4 images/s"),
        ("/cpu:0", "", "/cpu:0"),
        ("unset", "count", "unset"),
        (float("nan"), "ns", "not recorded"),
    ],
)
def test_format_value(value, unit, expected):
    assert words.format_value(Evidence("what", value, unit)) == expected


def test_steps_sentence_has_source_and_warm_up(sample):
    result = sample("launch_bound")
    assert words.steps_sentence(result.steps, result.breakdown.wall_ns) == (
        "400 marked in the trace · median 10.0 ms · 8 of 10 between 9.20 ms and 10.9 ms"
        " · first 10 left out as warm-up · profiling adds 51 %"
    )


def test_the_described_step_comes_before_a_median_of_other_steps():
    text = words.steps_sentence(some_steps(10, count=13), 67 * MS)
    assert text.startswith(
        "13 marked in the trace · 67.0 ms on average · median 10.0 ms · 8 of 10 "
    )


def test_of_few_steps_the_shortest_and_the_longest_steady_one_are_shown():
    times = tuple(ms * MS for ms in (1540, 121, 130, 125))
    steps = some_steps(125, count=4, warm_up=1, durations_ns=times)
    assert words.steps_sentence(steps, 125 * MS) == (
        "4 marked in the trace · median 125 ms · 121 to 130 ms · first left out as warm-up"
    )


def test_one_steady_step_has_no_range():
    steps = some_steps(125, count=2, warm_up=1, durations_ns=(900 * MS, 125 * MS))
    assert words.steps_sentence(steps, 125 * MS) == (
        "2 marked in the trace · median 125 ms · first left out as warm-up"
    )


def test_how_the_run_ended_is_no_note(sample):
    result = sample("healthy")
    ended = structs.replace(result.run, ending="It crashed.")
    result = structs.replace(result, run=ended, notes=("It crashed.", "It was hot."))
    assert words.notes(result) == ["It was hot."]


def test_one_step_has_no_percentiles():
    assert words.steps_sentence(some_steps(10, count=1, warm_up=0), 10 * MS) == (
        "1 marked in the trace · 10.0 ms"
    )


def test_steps_sentence_without_steps(sample):
    assert words.steps_sentence(sample("unknown").steps, 0) == (
        "None found: times are for the whole trace, not per step"
    )


def test_run_line_counts_equal_devices(sample):
    assert words.run_line(sample("communication_bound")) == (
        "181 ms per step · PyTorch 2.3.1 · 8 x NVIDIA H100 · 8 of 8 ranks"
        " · torchrun --nproc 8 train.py"
    )


def test_run_line_is_empty_when_nothing_is_known(sample):
    assert words.run_line(sample("no_devices")) == ""


@pytest.mark.parametrize(
    ("name", "expected"), [("healthy", True), ("towers", False), ("unknown", False)]
)
def test_health_needs_a_clear_check_and_a_verdict(sample, name, expected):
    assert words.is_healthy(sample(name)) is expected


def test_parallel_sentence(sample):
    together = structs.replace(sample("healthy"), parallel=ParallelUse(2, 0.6, 0.75, 0.8))
    assert words.parallel_sentence(together) == (
        "Parallel efficiency of 2 devices: 60 % (load balance 75 %; the busiest computes for 80 % "
        "of the step)."
    )
    assert words.parallel_sentence(sample("healthy")) == ""


def test_shorter_profiled_steps_are_not_a_negative_cost():
    steps = some_steps(10, profiler_cost=-0.7, profiler_cost_interval=(-0.78, -0.14))
    assert words.steps_sentence(steps, 10 * MS).endswith(
        "the profiled ones were 70 % shorter than the others, so not typical"
    )


@pytest.mark.parametrize("most", [0.59, 85.3])
def test_cost_of_profiling_without_a_useful_bound_is_unknown(most):
    steps = some_steps(10, profiler_cost=0.3, profiler_cost_interval=(-0.4, most))
    assert words.steps_sentence(steps, 10 * MS).endswith(
        "cost of profiling unknown, steps vary too much"
    )


@pytest.mark.parametrize(
    ("categories", "host_ms", "expected_ms"),
    [
        ({"compute": 10}, [8, 4], 12),  # at the same time
        ({"compute": 6, "python": 4}, [8, 4], 20),  # slowed down by a profiler: twice 6 ms
        ({"input_wait": 9, "compute": 1}, [9, 1], 10),  # an operation that waits
        ({"compute": 10}, [3], 10),
    ],
)
def test_operations_take_no_more_than_the_step(sample, categories, host_ms, expected_ms):
    parts = a_breakdown(**categories)
    ops = tuple(Op(f"op{n}", "host", "forward", 1.0, ms * MS, ms * MS, None)
                for n, ms in enumerate(host_ms))  # fmt: skip
    result = structs.replace(sample("healthy"), breakdown=parts, ops=ops)
    assert words.steps_of_operations(result) == {"host": expected_ms * MS}


def test_sentence_says_that_the_report_covers_part_of_the_run():
    parts = (Stretch(1, 4, 10, 40, 0, False), Stretch(5, 10, 20, 120, 0, True))
    steps = some_steps(10, count=10, warm_up=1, steady=5, stretches=parts)
    assert words.steps_sentence(steps, 10 * MS).startswith(
        "10 marked in the trace; this report covers 6 of them · median"
    )


def test_phases_name_the_compute_time_of_an_unknown_phase():
    breakdown = a_breakdown({"unknown": 5 * MS, "forward": 35 * MS, "backward": 60 * MS})
    sentence = "Compute time: forward 35 %, backward 60 %, unknown phase 5.0 %."
    assert words.phase_sentence(breakdown) == sentence


def test_unknown_phases_alone_say_nothing():
    assert words.phase_sentence(a_breakdown({"unknown": 5 * MS})) == ""


def test_inference_compares_outputs():
    fix = Fix("Compile it.", "", "changes-numerics")
    assert risk(fix) == "may change numerical results; compare a few losses"
    assert risk(structs.replace(fix, compare="outputs")).endswith("compare a few outputs")
    assert risk(Fix("Pin it.", "", "none")) == ""


def test_what_another_finding_hides_is_next(sample):
    first = Finding("input-bound", "found", "Prepare batches faster")
    caused = Finding("serial-input", "found", "Use workers", explained_by="input-bound")
    hidden = Finding(
        "launch-bound", "found", "Launch less", explained_by="input-bound", hidden=True
    )
    result = structs.replace(sample("input_bound"), findings=(first, caused, hidden))
    assert explained_sentence(result) == (
        "Also found, but explained by a finding above: serial-input (by input-bound). "
        "Also found, to be fixed next: launch-bound (hidden by input-bound)."
    )
    assert explained_sentence(structs.replace(result, findings=(first,))) == ""
