"""Which steps belong to one epoch of the training."""

import numpy as np
import pytest

from stepwhy.analyse.steps.epochs import training_epochs
from stepwhy.trace.notation import parse


def epochs(*events, steps=20, framework="pytorch", pauses=(), fewest=1):
    """Epochs of steps of 10 ms; events are (name, start in ms), pauses are steps before which 5 ms
    pass."""
    starts = np.arange(steps) * 10 + 5 * np.searchsorted(pauses, np.arange(steps), side="right")
    marks = "\n".join(f"{start} ms | 10 ms | 0" for start in starts.tolist())
    rows = "\n".join(f"epoch | {start} ms | 1 ms | {name}" for name, start in events)
    logged = f"events: kind | start_ns | dur_ns | name\n{rows}\n" if rows else ""
    trace = parse(
        f"framework: {framework}\nsignals: +step-log\nmain step |[--------]|\n"
        f"marks: start_ns | dur_ns | profiled\n{marks}\n\n{logged}"
    )
    return [tuple(epoch) for epoch in training_epochs(trace, fewest)]


def test_a_step_in_which_an_epoch_begins_belongs_to_none():
    assert epochs(("Train", 0), ("Train", 104)) == [(1, 10), (11, 20)]


def test_only_the_loader_of_the_training_counts():
    events = ("Valid", 0), ("Train", 0), ("Valid", 52), ("Valid", 101), ("Train", 104)
    assert epochs(*events) == [(1, 10), (11, 20)]


def test_a_training_whose_first_epoch_begins_in_its_first_step():
    assert epochs(("Train", 4), ("Valid", 101), ("Train", 104)) == [(1, 10), (11, 20)]


def test_short_epochs_are_ignored():
    assert epochs(("Train", 0), ("Train", 34), ("Train", 104), fewest=9) == [(11, 20)]


def test_after_a_full_log_other_epochs_may_have_begun():
    many = [("Valid", 100)] * 398
    assert epochs(("Train", 0), *many[:-1], ("Train", 104)) == [(1, 10), (11, 20)]
    assert epochs(("Train", 0), *many, ("Train", 104)) == [(1, 10)]


@pytest.mark.parametrize(
    ("framework", "expected"), [("tensorflow", [(0, 5), (6, 12), (13, 20)]), ("jax", [])]
)
def test_the_loop_of_keras_pauses_between_epochs(framework, expected):
    assert epochs(framework=framework, pauses=(5, 12)) == expected


def test_without_epochs():
    assert epochs() == epochs(framework="tensorflow") == []
    assert epochs(("Train", 0), steps=0) == []
