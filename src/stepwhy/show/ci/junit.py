"""A comparison as a test case of JUnit, which every build server shows.

A regression is a failure, an inconclusive comparison a skipped test with its reason, and a program
that broke an error.

Source: the JUnit XML that Jenkins and GitLab read (testmoapp/junitxml on GitHub).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.base.errors import StepwhyError
    from stepwhy.result import Comparison
    from stepwhy.result.gate import Gate

_KINDS = {"slower": "failure", "unknown": "skipped"}
_COUNTS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def render(result: Comparison, gate: Gate, name: str) -> str:
    """One test case that asks whether B keeps the limit.

    Args:
        result: The comparison.
        gate: The limit, and whether B keeps it.
        name: Name of the test case.
    """
    kind = _KINDS.get(gate.outcome, "")
    suite, case = _suite(name, kind)
    properties = ET.Element("properties")
    for key, value in _figures(result, gate):
        ET.SubElement(properties, "property", name=key, value=f"{value:.12g}")
    suite.insert(0, properties)
    if kind:
        reason = f"{gate.reason}: {result.sentence}" if gate.reason else result.sentence
        _add(case, kind, reason, "regression" if kind == "failure" else "inconclusive")
    out = ET.SubElement(case, "system-out")
    out.text = "\n".join(map(one_line, (result.sentence, *result.certain, *result.notes)))
    return _document(suite)


def render_failure(error: StepwhyError, name: str) -> str:
    """One test case with the error of a program that could not be measured.

    Args:
        error: What went wrong.
        name: Name of the test case.
    """
    suite, case = _suite(name, "error")
    _add(case, "error", str(error), error.slug)
    return _document(suite)


def _suite(name: str, kind: str) -> tuple[ET.Element, ET.Element]:
    """A suite with one test case."""
    counts = {word: str(int(one == kind)) for one, word in _COUNTS.items()}
    suite = ET.Element("testsuite", {"name": "stepwhy compare", "tests": "1", **counts})
    case = {"classname": "stepwhy.compare", "name": one_line(name)}
    return suite, ET.SubElement(suite, "testcase", case)


def _add(case: ET.Element, kind: str, message: str, reason: str) -> None:
    """Say why the test did not pass; 'skipped' has no type."""
    found = ET.SubElement(case, kind, message=one_line(message))
    if kind != "skipped":
        found.set("type", reason)
        found.text = one_line(message)


def _figures(result: Comparison, gate: Gate) -> Iterator[tuple[str, float]]:
    """The numbers behind the outcome, those that are known."""
    yield "limit", gate.limit
    yield "a_step_ns", result.a.step_ns
    yield "b_step_ns", result.b.step_ns
    yield "change", result.change
    named = {"low": result.low, "high": result.high, "detectable": result.detectable}
    yield from ((key, value) for key, value in named.items() if value is not None)


def _document(suite: ET.Element) -> str:
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
