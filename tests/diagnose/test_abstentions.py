"""Every abstention carries one marker for programs, with names from one table."""

import ast
from pathlib import Path

import pytest

from stepwhy import diagnose
from stepwhy.analyse.facts import Facts
from stepwhy.diagnose import run_all
from stepwhy.diagnose.shared.rule import Rule, examine
from stepwhy.engine.assemble import assemble
from stepwhy.result import SIGNALS, Abstention
from stepwhy.result.abstentions import CODES, MEANINGS
from stepwhy.result.reasons import Gap, Lack, Lead, Limited, NoEvidence, NotTraced, lack_of
from stepwhy.trace.notation import parse

FOLDER = Path(diagnose.__file__).parent
CODE_OF = {
    "no_data": "missing-signal",
    "incomplete": "incomplete-record",
    "not_applicable": "not-applicable",
    "error": "failed",
}
TRACES = {
    "nothing": "",
    "host": "main op |oooo|",
    "unseen-gpu": "expects: accelerator\nmain op |oooo|",
    "gpu": "framework: pytorch\nGPU:0 kernel |kk|  k=gemm",
    "steps": """
        framework: pytorch
        main   step  |[------][------]|
        main   input |dddd    dddd    |  d=DataLoader
        GPU:0 kernel |    kkkk    kkkk|  k=gemm
        """,
}


def markers(source):
    """First arguments of the calls of a module that make a finding which abstains."""
    makers = {"no_data", "incomplete", "lacks"}
    for node in ast.walk(ast.parse(source)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if is_call and node.func.attr in makers:
            yield ast.literal_eval(node.args[0])


def test_each_diagnosis_names_what_is_missing_by_a_known_name():
    own = [p for p in FOLDER.rglob("*.py") if p.name != "rule.py"]
    named = [name for path in own for name in markers(path.read_text(encoding="utf-8"))]
    assert len(named) > 60
    assert set(named) - SIGNALS.keys() == set()
    needed = {
        names[0] for module in map(diagnose.load, diagnose.TABLE) for names in module.RULE.needs
    }
    assert needed - SIGNALS.keys() == set()


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_all_diagnoses_mark_their_abstentions(trace):
    for finding in run_all(Facts(parse(trace))):
        marker = finding.abstention
        assert (marker and marker.code) == CODE_OF.get(finding.verdict)
        if finding.verdict in {"no_data", "incomplete"}:
            assert set(marker.missing) <= SIGNALS.keys()
            assert marker.missing


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_an_unknown_verdict_is_marked_and_no_other(trace):
    verdict = assemble(Facts(parse(trace)), "", "").verdict
    assert (verdict.abstention is not None) == (verdict.bound_by == "unknown")


def test_a_failure_is_marked():
    class Failing:
        RULE = Rule("input.a_b", "Name", "Do it", "It is done")

        @staticmethod
        def diagnose(_):
            raise KeyError

    finding = examine(Failing, Facts(parse("main op |oooo|")))
    assert finding.abstention == Abstention("failed")


def test_all_missing_signals_are_named():
    rule = Rule("input.a_b", "Name", "Do it", "It is done", needs=(("input",), ("placement",)))

    class Needy:
        RULE = rule

    finding = examine(Needy, Facts(parse("main op |oooo|")))
    assert finding.abstention == Abstention("missing-signal", ("input", "placement"))


@pytest.mark.parametrize(
    "reason",
    [*map(Gap, Lack), NotTraced(1, "", ""), Limited(""), NoEvidence(1.0, Lead.RECORD_AGAIN)],
    ids=str,
)
def test_every_reason_without_a_verdict_has_a_name(reason):
    assert lack_of(reason) in SIGNALS


def test_every_code_is_explained():
    assert set(CODES) == MEANINGS.keys() == set(CODE_OF.values())
