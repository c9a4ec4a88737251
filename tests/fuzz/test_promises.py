"""Results that cannot be, and what the judge says of them."""

import pytest
from fuzz.formats import seeds
from fuzz.promises import broken_promises, of_result
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.engine.assemble import assemble
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.result import Evidence, Saving


@pytest.fixture(scope="module")
def trace():
    name, data = next(iter(seeds("kineto")[0].items()))
    return read_trace(Source(data, name))[0]


@pytest.fixture(scope="module")
def result(trace):
    return assemble(Facts(trace), "trace.json", "kineto")


def test_a_valid_trace_keeps_its_promises(trace):
    assert list(broken_promises(trace, "trace.json", "kineto")) == []


def more_compute(result):
    categories = result.breakdown.categories
    return replace(
        result,
        breakdown=replace(
            result.breakdown, categories={**categories, "compute": categories["compute"] + 1}
        ),
    )


def first_device(**changes):
    def change(result):
        first, *rest = result.devices
        return replace(result, devices=(replace(first, **changes), *rest))

    return change


def first_total(**changes):
    def change(result):
        first = result.trace.devices[0]
        return replace(result, trace=replace(result.trace, devices=(replace(first, **changes),)))

    return change


def first_finding(**changes):
    def change(result):
        first, *rest = result.findings
        return replace(result, findings=(replace(first, **changes), *rest))

    return change


def told(value, unit):
    return first_finding(evidence=(Evidence("x", value, unit),))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (more_compute, "breakdown"),
        (first_device(breakdown={"compute": 5}), "breakdown"),
        (first_device(busy_ns=1 << 62), "busy"),
        (first_device(busy_fraction=1.01), "busy"),
        (first_total(busy_ns=1 << 62), "busy in all"),
        (first_total(h2d_bytes=1 << 63), "h2d_bytes beyond 64 bits"),
        (first_total(kernel_ns=-1), "kernel_ns below zero"),
        (first_finding(saving=Saving(2, 1, "x")), "saving of "),
        (told(-1, "ns"), "evidence_ns below zero"),
        (told(-(1 << 63) - 1, "count"), "evidence_count beyond 64 bits"),
        (told(float("nan"), "fraction"), "evidence_fraction not finite"),
        (told(float("inf"), "bytes"), "evidence_bytes not finite"),
    ],
)
def test_a_result_that_cannot_be(result, change, what):
    broken = list(of_result(change(result)))
    assert [b.startswith(what) for b in broken] == [True], broken
