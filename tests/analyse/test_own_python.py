"""Time without evidence is Python where the stack samples show it."""

from __future__ import annotations

import pytest

from stepwhy.analyse.breakdown.own_python import generator_share, own_share
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.sampled_lines import driver_lines
from stepwhy.trace.notation import parse

MS = 1_000_000


def run(samples, cpu="10 ms"):
    """A run of 20 ms per step, of which 10 ms compute, and nothing else is recorded."""
    return parse(f"""
        unit: 1 ms
        framework: jax
        signals: +step-log
        main  step   |[------------------]|
        CPU:0 kernel |kkkkkkkkkk          |
        marks: start_ns | dur_ns | profiled | cpu_ns
        0 ms | 20 ms | 1 | {cpu}
        20 ms | 20 ms | 0 | {cpu}
        40 ms | 20 ms | 0 | {cpu}

        samples: role | line | package | entry | count | start_ns | end_ns
        {samples}
    """)


def test_samples_in_the_programs_own_lines_are_python():
    facts = Facts(
        run("driver | a.py(1): f |  | - | 40 | - | -\n driver | a.py(2): f | jax | - | 60 | - | -")
    )
    assert own_share(driver_lines(facts.sampled)) == pytest.approx(0.4)
    assert (facts.breakdown["python"], facts.breakdown["unexplained"]) == (8 * MS, 2 * MS)


def test_no_more_than_is_unexplained_becomes_python():
    facts = Facts(run("driver | a.py(1): f |  | - | 100 | - | -"))
    assert (facts.breakdown["python"], facts.breakdown["unexplained"]) == (10 * MS, 0)


def test_a_thread_that_sleeps_runs_no_python():
    facts = Facts(run("driver | a.py(1): f |  | - | 100 | - | -", cpu="2 ms"))
    assert facts.breakdown["unexplained"] == 8 * MS


def test_a_callback_is_no_own_line():
    facts = Facts(
        parse("""
            unit: 1 ms
            framework: jax
            signals: +step-log
            main  step   |[------------------]|
            CPU:0 kernel |kkkkkkkkkk          |
            CPU:0 python |          pppp      |  p=pure_callback.1
            marks: start_ns | dur_ns | profiled | cpu_ns
            0 ms | 20 ms | 1 | 10 ms
            20 ms | 20 ms | 0 | 10 ms
            40 ms | 20 ms | 0 | 10 ms

            samples: role | line | package | entry | count
            driver | a.py(1): f |  | jax callback | 20
            driver | a.py(2): g |  | -            | 10
            driver | a.py(3): h | jax | -         | 70
        """)
    )
    assert facts.callback_ns == 4 * MS
    assert (facts.breakdown["python"], facts.breakdown["unexplained"]) == (6 * MS, 4 * MS)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param("driver | a.py(1): f |  | - | 10 | - | -", id="too few"),
        pytest.param("driver | a.py(1): f |  | DataLoader | 100 | - | -", id="prepares batches"),
        pytest.param("thread | a.py(1): f |  | - | 100 | - | -", id="another thread"),
        pytest.param("driver | a.py(1): f |  | - | 100 | 0 ms | 15 ms", id="in a profiled step"),
    ],
)
def test_other_samples_show_no_python(samples):
    assert Facts(run(samples)).breakdown["unexplained"] == 10 * MS


def test_generators_of_the_loop_make_its_batches():
    samples = (
        "driver | a.py(1): batches |  | generator | 30 | - | -\n"
        " driver | a.py(9): main | jax | - | 70 | - | -"
    )
    facts = Facts(run(samples))
    assert generator_share(facts.sampled) == pytest.approx(0.3)
    assert (facts.breakdown["input_wait"], facts.breakdown["unexplained"]) == (6 * MS, 4 * MS)


def test_a_generator_that_contains_the_training_makes_no_batches():
    samples = (
        "driver | a.py(1): steps |  | generator | 30 | - | -\n"
        " driver | a.py(9): steps | jax | generator | 70 | - | -"
    )
    facts = Facts(run(samples))
    assert generator_share(facts.sampled) == 0
    assert (facts.breakdown["input_wait"], facts.breakdown["python"]) == (0, 6 * MS)
