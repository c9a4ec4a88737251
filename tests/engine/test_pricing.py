"""Findings with predicted savings: how sure their fixes are, why they differ, and their order."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.observed import Observed
from stepwhy.engine import pricing
from stepwhy.engine.pricing import priced
from stepwhy.predict.calibration import shipped_record
from stepwhy.predict.gpu_gains import reach
from stepwhy.result import Edit, Finding, Prediction, Saving
from stepwhy.trace.notation import parse
from tests.predict.test_replay import AHEAD, LAUNCHING, UNIT, WAITING

# The next batch takes 7 of 10 columns, the rest of the step 3.
LATE = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   input  |iiiiiii   iiiiiii   iiiiiii   |  i=DataLoader.__next__
    main   op     |       oo        oo        oo |  o=aten::mm
    main   launch |       l         l         l  |  l=cudaLaunchKernel
    GPU:0  kernel |        k         k         k |
    arrows: l -> k
"""


def finding(name, cost, edit=None, method="bound"):
    return Finding(
        name, "found", name, cost * UNIT, Saving(0, cost * UNIT, "bound", method), edit=edit
    )


@pytest.mark.parametrize(
    ("sure", "low", "note"),
    [
        # Kernels of 7 columns that are twice as fast save 3.5 of 10; a replay is exact to 0.1, and
        # fixes gain up to 0.5 more.
        (1.0, 3.4, "gains measured on one H100 are within the range."),
        (0.5, 1.65, "The low end assumes that the fix removes 50 % of this work."),
        (0.0, 0.0, "gains measured on one H100 are within the range."),
    ],
)
def test_the_low_end_is_what_the_fix_removes_for_certain(sure, low, note):
    edit = Edit("kernels", "faster", factor=2.0, sure=sure)
    (found,) = priced(Facts(parse(WAITING)), [finding("launch-bound", 4, edit)])
    assert found.saving.low_ns == pytest.approx(low * UNIT, rel=0.05)
    high = 4 * reach(shipped_record().on_gpu)
    assert found.saving.high_ns == pytest.approx(high * UNIT, rel=0.05)
    assert found.saving.note.endswith(note)


def test_a_fix_whose_gain_other_work_hides_comes_later_and_says_why():
    # The device needs all of the step, so that removing what the host does saves nothing.
    hidden = finding("launch-bound", 4, Edit("dispatch", "gone"))
    found = priced(Facts(parse(AHEAD)), [hidden, finding("input-bound", 2)])
    assert [one.id for one in found] == ["input-bound", "launch-bound"]
    assert found[1].saving.note.startswith("It saves less than half of its cost: without it")


def test_a_step_that_still_waits_for_its_input_says_so():
    # Reading ahead saves 2 of 8 columns: the batch takes as long as the rest of the step and more.
    late = finding("input-bound", 7, Edit("input", "prefetch"))
    (found,) = priced(Facts(parse(LATE)), [late])
    assert found.saving.note.startswith(
        "It saves less than half of its cost: the step still waits for the same input."
    )


@pytest.mark.parametrize(
    ("drawing", "edit", "reason"),
    [
        (LAUNCHING, Edit("dispatch", "gone"), "the cost counts a long gap as a single launch"),
        (WAITING, Edit("ops", "gone", "aten::mm"), "the host no longer launches this work"),
        (WAITING, Edit("kernels", "faster", factor=20.0), "what waits for this work then starts"),
    ],
)
def test_a_saving_above_the_cost_has_its_reason(drawing, edit, reason):
    (found,) = priced(Facts(parse(drawing)), [finding("launch-bound", 1, edit)])
    assert found.saving.high_ns > UNIT
    assert reason in found.saving.note


def test_a_failing_model_leaves_the_bound(monkeypatch):
    def fail(*_):
        raise ValueError

    monkeypatch.setattr("stepwhy.engine.pricing.price", fail)
    one = finding("launch-bound", 4, Edit("dispatch", "gone"))
    assert priced(Facts(parse(WAITING)), [one]) == (one,)


# A step of 100 columns that takes 50 to 70 without the work.
ON_CPU = Prediction(
    edits=(Edit("memory", "gone"),),
    step_ns=100 * UNIT,
    remaining_ns=60 * UNIT,
    low_ns=50 * UNIT,
    high_ns=70 * UNIT,
    family="removed",
    method="cpu",
    structural_low_ns=50 * UNIT,
    structural_high_ns=70 * UNIT,
    naive_ns=60 * UNIT,
    notes=("Measured.",),
)


def test_a_saving_above_the_cost_on_cpus_has_its_reason(monkeypatch):
    monkeypatch.setattr(pricing, "price", lambda *_: ON_CPU)
    notes = []
    for cost in (30, 50):
        one = finding("page-faults", cost, Edit("memory", "gone"))
        (found,) = priced(Facts(parse(WAITING)), [one])
        notes.append(found.saving.note)
    assert notes[0].startswith("It can save more than its cost: where such fixes were measured")
    assert notes[1] == "Measured."


def test_a_saving_is_not_certain_to_exceed_the_cost(monkeypatch):
    monkeypatch.setattr(pricing, "price", lambda *_: ON_CPU)
    (found,) = priced(Facts(parse(WAITING)), [finding("page-faults", 20, Edit("memory", "gone"))])
    assert (found.saving.low_ns, found.saving.high_ns) == (20 * UNIT, 50 * UNIT)


def test_a_fix_that_may_remove_little_has_a_low_end_near_zero(monkeypatch):
    monkeypatch.setattr(pricing, "price", lambda *_: ON_CPU)
    for sure, low, note in ((0.1, 3, "this fix saved little: try it."), (0.5, 30, "Measured.")):
        one = finding("page-faults", 50, Edit("memory", "gone", sure=sure))
        (found,) = priced(Facts(parse(WAITING)), [one])
        assert (found.saving.low_ns, found.saving.high_ns) == (low * UNIT, 50 * UNIT)
        assert found.saving.note.endswith(note)


def test_what_takes_the_place_of_compiling_lowers_the_low_end(monkeypatch):
    monkeypatch.setattr(pricing, "price", lambda *_: ON_CPU)
    one = finding("recompilation", 50, Edit("compile", "gone", sure=0.6))
    (found,) = priced(Facts(parse(WAITING)), [one])
    assert (found.saving.low_ns, found.saving.high_ns) == (18 * UNIT, 50 * UNIT)
    assert found.saving.note.endswith("The low end assumes that the fix removes 60 % of this work.")


@pytest.mark.parametrize(
    ("low", "high", "cost", "wider"), [(3, 4, 4, (2.8, 4)), (5, 6, 4, (4.7, 6.3))]
)
def test_bounds_on_cpus_are_as_wide_as_programs_outside_of_the_lab_need(low, high, cost, wider):
    saving = Saving(low * UNIT, high * UNIT, "read less", note="Why it is more.")
    one = replace(finding("storage-wait", cost, None), saving=saving)
    (found,) = priced(Facts(parse(WAITING.replace("GPU:0", "CPU:0"))), [one])
    assert (found.saving.low_ns, found.saving.high_ns) == tuple(ns * UNIT for ns in wider)


def test_the_note_of_a_replay_says_how_many_gains_of_the_gpu_lab_it_would_hold():
    grade = json.loads((Path(__file__).parents[2] / "lab/gpu-grade.json").read_text())
    known = [p for p in grade["pairs"] if p["gain_ns"] is not None and p["predicted_high_ns"]]
    factor = reach(shipped_record().on_gpu)
    held = sum(pair["gain_ns"] <= factor * pair["predicted_high_ns"] for pair in known)
    edit = Edit("kernels", "faster", factor=2.0)
    (found,) = priced(Facts(parse(WAITING)), [finding("launch-bound", 4, edit)])
    assert f"{held} of {len(known)} gains measured" in found.saving.note


STALLED = """
    unit: 10 us
    framework: pytorch
    main   step   |[--------][--------][--------]|
    main   op     |oo        oo        oo        |  o=aten::mm
    main   launch |l         l         l         |  l=cudaLaunchKernel
    main   sync   |  wwwwwwwwwwwwwwwwwwwwwwwwwwww|  w=cudaDeviceSynchronize
    GPU:0  kernel |  kkkkkk    kkkkkk    kkkkkk  |  k=gemm
    arrows: l -> k
"""


def test_what_stalls_some_steps_is_priced_by_the_log_not_by_the_profiled_steps():
    edit = Edit("compile", "gone", sure=0.9)
    facts = Facts(parse(STALLED))
    steady = np.full(8, 100_000)
    facts.observed = Observed(steady, 0, stalls_ns={"compile": 400_000})
    (found,) = priced(
        facts, [replace(finding("recompilation", 40, edit), cost_ns_per_step=400_000)]
    )
    assert found.saving.low_ns == pytest.approx(360_000, rel=0.05)
    assert found.saving.high_ns == pytest.approx(400_000, rel=0.05)
    assert "timed in all of them" in found.saving.note
