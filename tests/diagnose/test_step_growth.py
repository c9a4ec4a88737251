"""Steps that become slower within each epoch."""

import numpy as np
import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.host.step_growth import diagnose
from stepwhy.trace.notation import parse

RISING = [10 + 2 * (step // 9) for step in range(72)]


def judged(*epochs, extra=""):
    """The finding for epochs of steps that take so many ms; the first of each restarts a loader."""
    durations = [ms for epoch in epochs for ms in epoch]
    starts = (np.cumsum(durations) - durations).tolist()
    firsts = np.cumsum([0, *map(len, epochs)])[:-1].tolist()
    marks = "\n".join(f"{at} ms | {ms} ms | 0" for at, ms in zip(starts, durations, strict=True))
    events = "\n".join(f"epoch | {starts[first]} ms | Train | -" for first in firsts)
    trace = parse(
        "framework: pytorch\nsignals: +step-log\nmain step |[--------]|\nmain op |mmmmmmmmmm|\n"
        f"marks: start_ns | dur_ns | profiled\n{marks}\n\n"
        f"events: kind | start_ns | name | count\n{events}\n{extra}"
    )
    return diagnose(Facts(trace))


def ends(finding):
    return {e.what: e.value / 1e6 for e in finding.evidence if e.what.startswith("median step")}


def test_steps_are_compared_by_their_place_even_if_the_last_epoch_was_interrupted():
    found = judged(RISING, RISING, RISING[:65])
    assert found.verdict == "found"
    assert ends(found) == {
        "median step at the beginning of an epoch": 10,
        "median step at the end of an epoch": 24,
    }


def test_a_level_that_changes_in_each_epoch_is_no_growth():
    assert judged(*[[10] * 36 + [20] * 36] * 3).verdict == "clear"


@pytest.mark.parametrize(("flat", "verdict"), [(1, "found"), (2, "clear")])
def test_most_epochs_have_to_rise(flat, verdict):
    assert judged(RISING, *[[17] * 72] * flat, RISING).verdict == verdict


def test_many_hooks_are_named_first():
    many = judged(RISING, RISING, extra="hooks | 0 ms | forward hook | 16\n")
    assert "hook" in many.title
    few = judged(RISING, RISING, extra="hooks | 0 ms | forward hook | 2\n")
    assert few.title.endswith("within each epoch")
