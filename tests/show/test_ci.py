"""Comparisons as Markdown for GitHub, as JUnit XML, and in Bencher Metric Format."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from tests.measure.results import MS, op, result, steady

from stepwhy.base.errors import MeasurementError
from stepwhy.measure import compare, gate, sample
from stepwhy.result.gate import Gate
from stepwhy.show.ci import FAILURES, FORMATS
from stepwhy.show.ci.github import marker

EVIL = "x`|<script>alert(1)</script> @octocat #1 [a](https://evil.test) ](( --> \x1b[2J\n# forged"


def side(steps_ms, **options):
    return [
        sample(result(steady(int(ms * MS)), **options), f"r{n}") for n, ms in enumerate(steps_ms)
    ]


def comparison(b_ms=(12, 12.1, 11.9), labels=("old.py", "new.py"), **options):
    a = side([10, 10.1, 9.9], ops=[op("loader", 5 * MS), op("conv", MS)])
    return compare(labels, a, side(b_ms, ops=[op("conv", MS)]), margin=0.03, **options)


def rendered(form, found=None, name="step time"):
    found = found or comparison()
    return FORMATS[form](found, gate(found, 0.03), name)


# --- The gate ---


def gated(*args, **changes):
    return gate(replace(comparison(*args), **changes), 0.03)


def test_gate_by_outcome():
    assert gated() == Gate(0.03, "slower")
    assert gated((9, 9.1, 8.9)) == Gate(0.03, "passed")
    assert gated((8, 12, 14)).reason == "the interval of the change allows both answers"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"comparable": False}, "the environments of the runs differ"),
        ({"quiet": False}, "other programs kept the machine busy"),
        ({"pairs": 1}, "there is a single run of a program"),
    ],
)
@pytest.mark.parametrize("b_ms", [(12, 12.1, 11.9), (9, 9.1, 8.9)])
def test_runs_that_show_nothing_neither_fail_nor_pass(b_ms, changes, reason):
    assert gated(b_ms, **changes) == Gate(0.03, "unknown", reason)


# --- GitHub ---


def test_markdown_shows_what_a_reviewer_needs():
    found = comparison(batch_size=32)
    text = rendered("github", found)
    first, heading = text.split("\n\n")[:2]
    assert first == "<!-- stepwhy-compare: step-time -->"
    assert heading == "### ❌ step time: more than 3 % slower"
    assert "| program | `old.py` | `new.py` |  |" in text
    assert re.search(r"\| \*\*\+20 % \(\+1\d % to \+2\d %\)\*\* \|", text)
    assert "| examples/s | 3200 | 2667 |  |" in text
    assert "Smallest change that these runs would detect: " in text
    assert "```text\nGone from B: loader.\n```" in text


def test_markdown_says_why_it_cannot_tell():
    found = replace(comparison(), quiet=False, notes=("Void: the machine was busy.",))
    text = rendered("github", found)
    assert "⚠️ step time: cannot tell whether it is more than 3 % slower: other programs" in text
    assert "> [!WARNING]\n> - Void: the machine was busy." in text


def test_markdown_of_a_single_run_names_no_detectable_change():
    text = rendered("github", compare(("a", "b"), side([10]), side([20]), margin=0.03))
    assert "One run of each cannot show which changes would be detected." in text


def test_marker_tells_comparisons_apart_and_cannot_be_closed():
    assert marker("ResNet 50") == "<!-- stepwhy-compare: resnet-50 -->"
    assert marker("a --> <b>") == "<!-- stepwhy-compare: a-b -->"
    assert marker("步骤") != marker("训练")


def test_names_stay_text_in_markdown():
    found = comparison(labels=(EVIL, EVIL))
    found = replace(found, certain=(EVIL,), notes=(EVIL,), sentence=EVIL, stepwhy=EVIL)
    text = rendered("github", found, EVIL)
    outside = without_code(text)
    assert "<script>" not in outside.replace("\\<", "")
    assert "@octocat" not in outside
    assert "#1" not in outside
    assert "://" not in outside
    assert "\n# forged" not in text
    assert "\x1b" not in text
    assert text.count("<!-- stepwhy-compare") == 1


def without_code(text):
    """Markdown without its blocks and spans of code, found by their fences."""
    for fence in ("````", "```", "``", "`"):
        parts = text.replace("\\`", "").split(fence)
        assert len(parts) % 2, f"an odd number of {fence}"
        text = "".join(parts[::2])
    return text


# --- JUnit ---


def suite_of(text):
    (suite,) = ET.fromstring(text.encode())  # noqa: S314 - our own text
    return suite


@pytest.mark.parametrize(
    ("b_ms", "kind"),
    [((12, 12.1, 11.9), "failure"), ((8, 12, 14), "skipped"), ((9, 9.1, 8.9), None)],
)
def test_junit_has_one_test_case(b_ms, kind):
    suite = suite_of(rendered("junit", comparison(b_ms)))
    case = suite.find("testcase")
    kinds = ("failure", "skipped", "error")
    assert [word for word in kinds if case.find(word) is not None] == ([kind] if kind else [])
    counts = {word: suite.get(f"{word}s".replace("skippeds", "skipped")) for word in kinds}
    assert counts == {word: str(int(word == kind)) for word in kinds}


def test_junit_says_why_and_by_how_much():
    suite = suite_of(rendered("junit", comparison((8, 12, 14)), EVIL))
    message = suite.find("testcase/skipped").get("message")
    assert message.startswith("the interval of the change allows both answers: Cannot tell: B")
    figures = {p.get("name"): float(p.get("value")) for p in suite.iter("property")}
    assert (figures["a_step_ns"], figures["limit"]) == (10 * MS, 0.03)
    assert "\x1b" not in suite.find("testcase").get("name")


# --- Bencher ---


def test_bencher_metrics():
    found = json.loads(rendered("bmf", comparison(batch_size=32), "ResNet 50"))
    measures = found["ResNet 50"]
    assert measures["latency"]["value"] == 12 * MS
    latency, throughput = measures["latency"], measures["throughput"]
    assert latency["lower_value"] <= latency["value"] <= latency["upper_value"]
    assert throughput["lower_value"] <= throughput["value"] <= throughput["upper_value"]
    assert throughput["value"] == pytest.approx(32 / 0.012)
    assert measures["step-time-change"]["value"] == pytest.approx(20, abs=0.5)


def test_bencher_leaves_out_what_is_unknown():
    a, b = ([sample(result([MS, ms * MS, ms * MS]), "r")] for ms in (10, 20))
    found = json.loads(rendered("bmf", compare(("a", "b"), a, b, margin=0.03)))
    assert found["step time"]["step-time-change"] == {"value": 100.0}
    assert "throughput" not in found["step time"]


# --- A program that broke ---

BROKEN = MeasurementError(f"{EVIL} ended with exit code 3", "See its output")


def test_failure_is_a_report_with_the_same_marker():
    text = FAILURES["github"](BROKEN, "step time")
    assert text.startswith(marker("step time"))
    assert "### 💥 step time: not measured" in text
    assert "@octocat" not in without_code(text)
    assert "`cannot-measure`" in text


def test_failure_is_an_error_of_the_test_case():
    suite = suite_of(FAILURES["junit"](BROKEN, "step time"))
    assert suite.get("errors") == "1"
    assert suite.find("testcase/error").get("type") == "cannot-measure"
