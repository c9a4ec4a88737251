"""A loop that prepares its input itself, while other programs use the cores."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from stepwhy.analyse.facts import Facts
from stepwhy.engine.assemble import assemble
from stepwhy.show import html, markdown, terminal
from stepwhy.show import json as as_json
from stepwhy.trace.notation import parse

STEPS = "\n".join(f"{100 + 80 * i} ms | 80 ms | 0 | 20 ms | 20 ms | WAIT ms" for i in range(20))
TRACE = f"""
unit: 1 ms
framework: tensorflow
main   step   |[---session.run----]|
CPU:0  kernel |cdcdcdcdcdcdcdcdcdcd|  c=Conv2D {{scope: a; phase: forward}}  d=Relu {{scope: b}}

marks: start_ns | dur_ns | profiled | graph_ns | cpu_ns | run_delay_ns
{STEPS}

counters: name | time_ns | value
cores | 0 s | 2
cpu_ns | 0 s | 0
cpu_ns | 2 s | 500 ms
run_delay_ns | 0 s | 0
run_delay_ns | 2 s | 900 ms
machine_busy_ns | 0 s | 0
machine_busy_ns | 2 s | OTHERS ms
job_cpu_ns | 0 s | 0
job_cpu_ns | 2 s | 500 ms
"""
WAITS = "The driving thread waits for a CPU core for 40.0 ms of every step (50 %): "
INCLUDED = " The categories include this wait."


def result_of(wait_ms, others_ms=3500):
    text = TRACE.replace("WAIT", str(wait_ms)).replace("OTHERS", str(others_ms))
    return assemble(Facts(parse(text)), "run", "run-directory")


def printed(result):
    console = Console(width=100, record=True, color_system=None)
    with console.capture() as capture:
        terminal.render(result, console=console)
    return " ".join(capture.get().split())


@pytest.mark.parametrize(
    ("others_ms", "who"),
    [
        (3500, "other programs keep 1.5 of 2 cores busy."),
        (700, "the program's own threads and processes compete for 2 cores."),
    ],
)
def test_every_report_says_how_long_the_loop_waits_for_a_core(others_ms, who):
    result = result_of(40, others_ms)
    assert WAITS + who + INCLUDED in printed(result)
    assert WAITS + who + INCLUDED in markdown.render(result).replace("&#39;", "'")
    assert WAITS + who + INCLUDED in html.render(result).replace("&#39;", "'").replace(
        "\N{NO-BREAK SPACE}", " "
    )
    breakdown = json.loads(as_json.render(result))["breakdown"]
    assert (breakdown["core_wait_ns"], breakdown["note"]) == (40_000_000, WAITS + who + INCLUDED)


def test_waiting_for_a_core_is_explained_and_sleeping_is_not():
    waits, sleeps = result_of(40), result_of(0)
    assert waits.breakdown.categories["unexplained"] == 0
    assert waits.verdict.bound_by == "host"
    assert [f.id for f in waits.findings if f.verdict == "found"] == []
    assert sleeps.breakdown.note == ""
    assert sleeps.breakdown.categories["unexplained"] == 40_000_000
    (found,) = [f for f in sleeps.findings if f.verdict == "found"]
    assert (found.id, found.cost_ns_per_step) == ("wall-device-gap", 40_000_000)
    evidence = {fact.what: fact.value for fact in found.evidence}
    assert evidence["share of the step without evidence"] == 0.5
