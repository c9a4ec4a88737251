"""Whatever a run directory holds, its breakdown is closed and its parts agree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.engine import explain
from stepwhy.result import CATEGORIES
from stepwhy.result.contradictions import contradictions
from stepwhy.show import html
from stepwhy.show.json import render
from tests.engine.test_explain import kineto
from tests.read.run_directory.test_run_directory import write_run

US = 1_000
FEW = settings(max_examples=25, deadline=None, derandomize=True)

known = st.none() | st.integers(0, 500 * US)
steps = st.lists(
    st.fixed_dictionaries(
        {
            "length": st.integers(1, 2_000 * US),
            "profiled": st.integers(0, 1),
            "light": st.integers(0, 1),
            "input_wait_ns": known,
            "cpu_ns": known,
            "compile_ns": known,
        }
    ),
    min_size=1,
    max_size=80,
)
times = st.tuples(st.integers(-500, 90_000), st.integers(0, 9_000))
events = st.lists(
    st.tuples(st.sampled_from(["trace", "compile", "graph", "change", "epoch"]), times), max_size=9
)
levels = st.lists(
    st.tuples(
        st.sampled_from(["q", "Prefetch[1]"]),
        st.integers(-500, 90_000),
        st.integers(0, 40),
        st.none() | st.integers(1, 30),
        st.integers(0, 9),
    ),
    max_size=30,
)


def jsonl(records):
    return "".join(json.dumps(r) + "\n" for r in records)


@FEW
@given(steps, events, levels, st.booleans())
def test_any_run_directory_is_explained(steps, events, levels, traced):
    at, lines = 0, []
    for step in steps:
        about = {k: v for k, v in step.items() if k != "length" and v is not None}
        line = {"kind": "step", "start_ns": at, "end_ns": at + step["length"], **about}
        lines.append(json.dumps(line))
        at += step["length"]
    with tempfile.TemporaryDirectory() as folder:
        process = write_run(Path(folder), lines, window=kineto() if traced else None)
        (process / "events.jsonl").write_text(
            jsonl(
                {"kind": kind, "name": kind, "start_ns": a * US, "end_ns": (a + n) * US, "count": 3}
                for kind, (a, n) in events
            )
        )
        (process / "levels.jsonl").write_text(
            jsonl(
                {"kind": "tf.data", "name": name, "time_ns": time * US, "value": value,
                 "reserve": reserve, **({} if capacity is None else {"capacity": capacity})}
                for name, time, value, capacity, reserve in levels
            )
        )  # fmt: skip
        result = explain([folder])
    breakdown = result.breakdown
    assert set(breakdown.categories) == set(CATEGORIES)
    assert sum(breakdown.categories.values()) == breakdown.wall_ns
    assert min(breakdown.categories.values()) >= 0
    assert sum(event.count for event in result.events) == len(events)
    assert sum(pipeline.samples for pipeline in result.pipelines) == len(levels)
    if result.steps.source == "hook":
        assert result.steps.count == sum(not step["profiled"] for step in steps)
        assert sum(stretch.described for stretch in result.steps.stretches) == 1
        assert result.steps.stretches[-1].last_step == len(steps)
        assert sum(window.steps for window in result.steps.traced) + result.steps.count == len(
            steps
        )
    assert contradictions(result) == []
    json.loads(render(result))
    html.render(result)
