"""Findings as problem lines of an editor."""

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from stepwhy.result import Evidence
from stepwhy.show import problems

GUIDE = Path(__file__).parents[2] / "docs/how-to/share-a-report.md"
TASKS = json.loads(re.search(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1])
# What the guide gives to an editor.
MATCHER = re.compile(TASKS["tasks"][0]["problemMatcher"]["pattern"]["regexp"])


def with_evidence(result, *facts):
    finding = structs.replace(result.findings[0], evidence=facts)
    return structs.replace(result, findings=(finding,))


def test_one_line_per_finding_that_names_a_line(sample):
    assert problems.render(sample("towers")) == (
        "train_towers.py:57: misplaced-op: Move the towers' ops off the CPU of the first task "
        "(costs 14.2 ms per step)\n"
    )
    result = sample("input_bound")
    second = structs.replace(result.findings[1], evidence=(Evidence("at", "a/b.py(7): f", ""),))
    result = structs.replace(result, findings=(result.findings[0], second, *result.findings[2:]))
    lines = problems.render(result).splitlines()
    assert [MATCHER.match(line).groups()[:3] for line in lines] == [
        ("data/augment.py", "88", "input-bound"),
        ("a/b.py", "7", "launch-bound"),
    ]


@pytest.mark.parametrize(
    ("value", "where", "expected"),
    [
        ("", "train.py(24): main", "train.py:24"),
        ("", "train.py(24): <module>", "train.py:24"),
        ("", "tower_0/MatMul (models/net.py(3): build)", "models/net.py:3"),
        ("data/augment.py:88", "", "data/augment.py:88"),
        (1, "my models/net.py(3): build", "my models/net.py:3"),
        ("", r"C:\work\train.py(24): main", r"C:\work\train.py:24"),
        ("", "torch/site-packages/x.py(1): f", ""),
        ("", "/usr/lib/python3.11/queue.py(1): get", ""),
        ("", "train.py(0): f", ""),
        ("", "train.pyx(3): f", ""),
        (24, "cuda:0", ""),
    ],
)
def test_places(sample, value, where, expected):
    lines = problems.render(with_evidence(sample("towers"), Evidence("x", value, "", where)))
    assert lines.partition(": ")[0] == expected


def test_the_first_line_of_the_program_counts(sample):
    facts = (
        Evidence("at", "lib/site-packages/a.py:1", ""),
        Evidence("at", "", "", "b.py(2): f"),
        Evidence("at", "", "", "c.py(3): f"),
    )
    assert problems.render(with_evidence(sample("towers"), *facts)).startswith("b.py:2: ")


def test_a_name_cannot_forge_a_line(sample):
    fact = Evidence("at", "", "", "a\nb.py:1: forged\x1b[31m.py(2): f")
    text = problems.render(with_evidence(sample("towers"), fact))
    assert text.count("\n") == 1
    assert "\x1b" not in text


def test_other_verdicts_and_explained_findings_are_no_problems(sample):
    result = sample("input_bound")
    clear = structs.replace(result.findings[0], verdict="clear")
    explained = structs.replace(result.findings[0], explained_by="other")
    assert problems.render(structs.replace(result, findings=(clear, explained))) == ""
