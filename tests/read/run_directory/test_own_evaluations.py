"""Evaluations by loops of the program."""

from __future__ import annotations

import pytest

from stepwhy.read.formats.run_directory.event_log import Event
from stepwhy.read.formats.run_directory.own_evaluations import with_own_evaluations
from stepwhy.read.formats.run_directory.step_log import Line

TRAIN, TEST = 0, 1


def calls(*starts: tuple[int, int], update: bool = True) -> list[Line]:
    """Calls of 10 ns each, by signature and start."""
    return [
        Line("call", at, at + 10, signature=kind, update=int(update and kind == TRAIN))
        for kind, at in starts
    ]


def compiled(name: str, at: int, source: str, kind: str = "trace") -> Event:
    return Event(kind, at, at + 5, name, source=source)


def found(events: list[Event], records: list[Line], framework: str = "tensorflow"):
    own = with_own_evaluations(events, records, framework)
    return [
        (each.start_ns, each.end_ns, each.source, each.count)
        for each in own
        if each.kind == "evaluation" and each.name == "evaluation loop"
    ]


# Two evaluations of two batches, each after two steps.
LOOP = [(TRAIN, 0), (TRAIN, 20), (TEST, 40), (TEST, 60), (TRAIN, 80), (TRAIN, 100), (TEST, 120),
        (TEST, 140), (TRAIN, 160)]  # fmt: skip
TRACED = [
    compiled("train_step", 1, "train.py(9): <module>"),
    compiled("forward", 41, "train.py(30): evaluate"),
]


def test_calls_between_updates_are_evaluations_if_a_name_says_so():
    at = "train.py(30): evaluate"
    assert found(TRACED, calls(*LOOP)) == [(40, 70, at, 2), (120, 150, at, 2)]
    # Of a call that returns early, the end is when the next function is called.
    assert found(TRACED, calls(*LOOP), "jax") == [(40, 80, at, 2), (120, 160, at, 2)]
    records = calls(*LOOP)
    records[4].input_wait_ns = 4
    assert found(TRACED, records, "jax")[0] == (40, 76, at, 2)


@pytest.mark.parametrize(
    ("name", "source", "is_evaluation"),
    [
        ("test_step", "train.py(30): <module>", True),
        ("jit(eval_fn)", "train.py(30): main", True),
        ("forward", "train.py(30): run_validation", True),
        ("Model.evaluate", "", True),
        ("act", "train.py(30): collect", False),
        ("latest_values", "train.py(30): contest", False),
        ("evaluate_actions", "agent.py(30): learn", False),
        ("evaluate_batches", "agent.py(30): learn", True),
        # This function runs the training as well.
        ("forward", "train.py(31): <module>", False),
    ],
)
def test_names_that_tell(name, source, is_evaluation):
    events = [TRACED[0], compiled(name, 41, source)]
    assert bool(found(events, calls(*LOOP))) == is_evaluation


def test_a_test_of_a_training_is_no_evaluation():
    here = "test_training.py(9): test_training"
    events = [compiled("step", 1, here), compiled("sample", 41, here)]
    assert found(events, calls(*LOOP)) == []


def test_what_computes_gradients_is_no_evaluation():
    records = calls(*LOOP)
    for record in records:
        record.update = 1
    assert found(TRACED, records) == []


def test_missing_lines_end_an_evaluation():
    records = calls(*LOOP)
    records.insert(3, Line("gap", 52, 52))
    at = "train.py(30): evaluate"
    assert found(TRACED, records, "jax")[:2] == [(40, 50, at, 1), (60, 80, at, 1)]


def test_calls_within_a_logged_evaluation_count_once():
    logged = Event("evaluation", 39, 71, "evaluate", source="train.py(30): evaluate")
    assert [start for start, *_ in found([*TRACED, logged], calls(*LOOP))] == [120]


def test_a_mode_of_the_model_is_an_evaluation_if_a_name_says_so():
    events = [
        Event("evaluation-mode", 40, 70, "eval()", source="train.py(30): validate"),
        Event("evaluation-mode", 90, 95, "eval()", source="train.py(50): rollout"),
    ]
    assert found(events, []) == [(40, 70, "train.py(30): validate", None)]
    kinds = {each.kind for each in with_own_evaluations(events, [], "pytorch")}
    assert kinds == {"evaluation"}


def test_a_run_without_a_loop_has_none():
    assert found(TRACED, calls((TEST, 40))) == []
    assert found([], calls(*LOOP)) == []
