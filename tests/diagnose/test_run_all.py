"""Running all diagnoses: order, abstention and failure."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose import TABLE, load, rank, run_all
from stepwhy.diagnose.shared.rule import Rule, examine, saving
from stepwhy.result import Fix
from stepwhy.trace import Kind
from stepwhy.trace.notation import parse

RULE = Rule("input.a_b", "Name", "Do it", "It is done")
ACCELERATOR = Rule("host.a_b", "Name", "Do it", "It is done", accelerator_only=True)

CPU_RUN = parse("main op |oooo|")
UNSEEN_GPU = parse("expects: accelerator\nmain op |oooo|")
LOADER_RUN = parse(
    """
    unit: 1 ms
    framework: pytorch
    main   step   |[--------][--------]|
    main   input  |ddddd     ddddd     |  d=DataLoader
    GPU:0/1 memcpy|     m         m    |  m=Memcpy HtoD {copy: h2d}
    GPU:0  kernel |      kkkk      kkkk|  k=gemm
    """
)


def diagnosis(rule, diagnose=None):
    return SimpleNamespace(RULE=rule, diagnose=diagnose or (lambda _: rule.nothing()))


def found(id_, cost):
    return Rule(f"input.{id_}", "", "", "").finding(cost, (), Fix("", "", "none"))


def test_costliest_finding_comes_first():
    cheap, costly, free = found("cheap", 1), found("costly", 2), found("free", None)
    clear, no_data = RULE.nothing(), RULE.no_data("steps", "")
    expected = (costly, cheap, free, clear, no_data)
    assert rank([no_data, clear, free, cheap, costly]) == expected


def test_operations_that_remain_count_only_as_far_as_they_shrink():
    slow = found("unfused-optimizer", 40)
    slow = replace(slow, saving=saving("fuse", 10, 20))
    saves = found("checkpoint-stall", 30)
    assert rank([slow, saves]) == (saves, slow)
    # The wait for an input is the step's loss, however little of it a fix may gain.
    waits = replace(found("input-bound", 40), saving=saving("workers", 0, 20))
    assert rank([saves, waits]) == (waits, saves)


def test_what_may_not_help_comes_after_what_does():
    option = replace(found("serial-input", 40), is_optional=True)
    saves, free = found("checkpoint-stall", 30), found("free", None)
    assert rank([free, option, saves]) == (saves, option, free)


def test_a_fix_that_usually_saves_a_part_counts_as_that():
    faults, embedding = found("page-faults", 40), found("dense-embedding-gradient", 30)
    assert rank([faults, embedding]) == (embedding, faults)
    smaller = found("dense-embedding-gradient", 10)
    assert rank([smaller, faults]) == (faults, smaller)


def test_findings_of_a_run():
    findings = run_all(Facts(LOADER_RUN))
    assert [(f.id, f.cost_ns_per_step) for f in findings if f.verdict == "found"] == [
        ("input-bound", 5_000_000),
        ("exposed-transfer", 1_000_000),
    ]
    assert {f.id for f in findings} == {name.replace("_", "-") for name in TABLE}


def test_failing_diagnosis_is_one_error():
    def fail(_):
        raise KeyError("lost")

    finding = examine(diagnosis(RULE, fail), Facts(CPU_RUN))
    assert (finding.verdict, finding.reason) == ("error", "The diagnosis failed: KeyError: 'lost'.")


def test_failing_facts_give_an_error_per_diagnosis():
    findings = run_all(SimpleNamespace())
    assert {f.verdict for f in findings} == {"error"}
    assert len(findings) == len(TABLE)


def test_accelerator_only():
    assert examine(diagnosis(ACCELERATOR), Facts(CPU_RUN)).verdict == "not_applicable"
    assert examine(diagnosis(ACCELERATOR), Facts(UNSEEN_GPU)).verdict == "no_data"
    assert examine(diagnosis(ACCELERATOR), Facts(LOADER_RUN)).verdict == "clear"


def test_missing_signal_is_named():
    rule = Rule("input.a_b", "Name", "", "", needs=(("runtime-calls", "sync-calls"),))
    finding = examine(diagnosis(rule), Facts(CPU_RUN))
    assert finding.verdict == "no_data"
    assert "'runtime-calls'" in finding.reason


def test_one_of_several_signals_is_enough():
    rule = Rule("input.a_b", "Name", "", "", needs=(("runtime-calls", "host-ops"),))
    assert examine(diagnosis(rule), Facts(CPU_RUN)).verdict == "clear"


def test_empty_trace_is_never_clear():
    findings = run_all(Facts(parse("")))
    assert {f.verdict for f in findings} <= {"no_data", "not_applicable", "incomplete"}


def test_savings_have_two_digits():
    assert saving("edit", 1234, 98765) == saving("edit", 1200, 99000)


@pytest.mark.parametrize("name", TABLE)
def test_titles(name):
    rule = load(name).RULE
    for title in (rule.name, rule.found, rule.clear):
        assert not any(c.isdigit() for c in title)
        assert not title.endswith(".")


def test_warm_up_of_an_observed_run_is_not_a_finding():
    line = Timeline().steps(0, 10)
    line.add(line.thread(), Kind.COMPILE, 0, 10)
    line.add(line.stream(), Kind.KERNEL, 9, 10)
    assert examine(load("warmup_included"), Facts(line.trace())).verdict == "found"
    line.mark(100, 110)
    assert examine(load("warmup_included"), Facts(line.trace())).verdict == "not_applicable"


def test_a_cause_comes_before_the_symptom_that_it_mostly_explains():
    symptom, other = found("input-bound", 10), found("launch-bound", 9)
    for cost, order in ((10, "cause first"), (6, "cause first"), (4, "by cost")):
        cause = found("python-preprocessing", cost)
        expected = (cause, symptom, other) if order == "cause first" else (symptom, other, cause)
        assert rank([symptom, other, cause]) == expected
    assert rank([found("launch-bound", 3), cause]) == (cause, found("launch-bound", 3))
