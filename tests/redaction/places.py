"""Inputs with texts in one kind of place; each function writes a file or folder and returns it."""

from __future__ import annotations

import gzip
import json
from functools import partial
from typing import TYPE_CHECKING

from stepwhy.trace import Kind
from stepwhy.trace.store import save
from tests.analyse.timeline import Timeline
from tests.engine.test_explain import kineto
from tests.read.run_directory.test_run_directory import steps, write_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Texts = Sequence[str]

_STEPS = 4
_MS = 1_000_000


# --- Stored traces: one table and column each ---


def _stored(add: Callable[[Timeline, int, int, str], object], folder: Path, texts: Texts) -> Path:
    """A loop of steps; `add` gets the timeline, the index of the text, a time and the text."""
    timeline = Timeline()
    length = len(texts)
    timeline.steps(*range(0, length * (_STEPS + 1), length))
    for at in range(length * _STEPS):
        timeline.add(timeline.stream(), Kind.KERNEL, at, at + 1, name="gemm")
        add(timeline, at % length, at, texts[at % length])
    signals = frozenset({"host-ops", "device-activity", "placement", "python-stacks", "step-log"})
    path = folder / "run.stepwhy"
    save(timeline.trace(framework="pytorch", signals=signals), path)
    return path


def _host(kind: Kind) -> Callable[[Timeline, int, int, str], object]:
    return lambda t, _, at, text: t.add(t.thread(), kind, at, at + 1, name=text)


def _kernel(timeline: Timeline, _number: int, at: int, text: str) -> None:
    timeline.add(timeline.stream(number=8), Kind.KERNEL, at, at + 1, name=text)


def _scope(timeline: Timeline, _number: int, at: int, text: str) -> None:
    timeline.add(timeline.thread(), Kind.OP, at, at + 1, name="mm", scope=f"{text}/mm")


def _source(timeline: Timeline, _number: int, at: int, text: str) -> None:
    timeline.add(timeline.thread(), Kind.PYTHON, at, at + 1, name="f", source=text)


def _device(timeline: Timeline, number: int, at: int, text: str) -> None:
    stream = timeline.stream(device=f"GPU:{number} {text}")
    timeline.add(stream, Kind.KERNEL, at, at + 1, name="gemm")


def _thread(timeline: Timeline, number: int, at: int, text: str) -> None:
    thread = timeline.thread(name=f"{number} {text}")
    timeline.add(thread, Kind.OP, at, at + 1, name="mm")


def _node(column: str) -> Callable[[Timeline, int, int, str], object]:
    def add(timeline: Timeline, number: int, at: int, text: str) -> None:
        if at != number:
            return  # each node occurs once in a graph
        row = {"name": f"node{number}", "op": "MatMul", "requested": "GPU:0", "actual": "CPU:0"}
        row |= {"outer": "GPU:0", "scope_line": "a.py(1)", "source": "a.py(2)", column: text}
        intern = timeline.builder.intern
        timeline.builder.add("nodes", **{name: intern(value) for name, value in row.items()})

    return add


def _event(column: str) -> Callable[[Timeline, int, int, str], object]:
    def add(timeline: Timeline, _number: int, at: int, text: str) -> None:
        row = {"kind": "trace", "name": "step", "reason": "shape", "source": "a.py(1)"}
        intern = timeline.builder.intern
        texts = {name: intern(value) for name, value in (row | {column: text}).items()}
        timeline.builder.add("events", start_ns=at * _MS, dur_ns=_MS // 2, count=1, **texts)

    return add


def _level(timeline: Timeline, _number: int, at: int, text: str) -> None:
    intern = timeline.builder.intern
    values = {"queue": intern(text), "kind": intern("tf1-queue"), "value": 1, "capacity": 2}
    timeline.builder.add("levels", time_ns=at * _MS, reserve=0, **values)


# --- Files of a profiler ---


def _kineto(change: Callable[[dict, int, str], object], folder: Path, texts: Texts) -> Path:
    document = json.loads(kineto())
    for number, text in enumerate(texts):
        change(document, number, text)
    path = folder / "trace.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


def _named(category: str, document: dict, number: int, text: str) -> None:
    at = {"ph": "X", "pid": 10, "tid": 10, "ts": 3000 + number, "dur": 1}
    document["traceEvents"].append({**at, "cat": category, "name": text})


def _row(what: str, document: dict, number: int, text: str) -> None:
    where = {"ph": "M", "pid": 20 + number, "tid": 20 + number}
    document["traceEvents"].append({**where, "name": what, "args": {"name": text}})
    at = {"ph": "X", "pid": 20 + number, "tid": 20 + number, "ts": 3000 + number, "dur": 1}
    document["traceEvents"].append({**at, "cat": "cpu_op", "name": "aten::mm"})


def _environment(document: dict, number: int, text: str) -> None:
    document.setdefault("environment", {})[f"V{number}"] = text


# --- Run directories, as earlier versions wrote them ---


def _run(change: Callable[[Path, Texts], object], folder: Path, texts: Texts) -> Path:
    run = folder / "run"
    change(write_run(run, steps(10, 950_000, profiled=(4, 5)), window=kineto()), texts)
    return run


def _log(name: str, row: dict, key: str, process: Path, texts: Texts) -> None:
    lines = [json.dumps({**row, key: text}) for text in texts]
    (process / name).write_text("".join(f"{line}\n" for line in lines))


def _messages(process: Path, texts: Texts) -> None:
    """Two texts in each, because a report shows 50 messages."""
    pairs = ["\n".join(texts[place : place + 2]) for place in range(0, len(texts), 2)]
    _log("messages.jsonl", _MESSAGE, "text", process, pairs)


def _command(process: Path, texts: Texts) -> None:
    run = {"schema": "stepwhy.run/1", "command": ["python", "train.py", *texts], "exit_code": 0}
    (process.parent / "run.json").write_text(json.dumps(run))


def _stack(process: Path, texts: Texts) -> None:
    samples = [{"line": text, "leaf": text, "count": 9, "role": "driver"} for text in texts]
    path = {"paths": [list(texts)], "visits": [[0, 9, 0]]}
    stretches = [{"start_ns": 0, "end_ns": 9_000_000, "interval_ns": 7, "samples": samples, **path}]
    (process / "stacks.json").write_text(json.dumps({"schema": "x", "stretches": stretches}))


def _lines(process: Path, texts: Texts) -> None:
    numbers = list(range(len(texts)))
    columns = {"op": numbers, "line": numbers, "dur_ns": [9] * len(texts)}
    step = {"step": 4, **columns, "engine": [0] * len(texts)}
    noted = {"schema": "stepwhy.lines/1", "strings": list(texts), "steps": [step]}
    (process / "lines.json.gz").write_bytes(gzip.compress(json.dumps(noted).encode()))


_EVENT = {"kind": "trace", "start_ns": 0, "end_ns": 9, "name": "step", "reason": "new"}
_LEVEL = {"kind": "dataloader", "time_ns": 5, "name": "queue", "value": 1, "capacity": 4}
_MESSAGE = {"level": "warning", "slug": "window-lost", "text": ""}

PLACES: dict[str, Callable[[Path, Texts], Path]] = {
    "operation": partial(_stored, _host(Kind.OP)),
    "range": partial(_stored, _host(Kind.ANNOTATION)),
    "input": partial(_stored, _host(Kind.INPUT)),
    "call": partial(_stored, _host(Kind.SYNC)),
    "kernel": partial(_stored, _kernel),
    "scope": partial(_stored, _scope),
    "source": partial(_stored, _source),
    "device": partial(_stored, _device),
    "thread": partial(_stored, _thread),
    "node": partial(_stored, _node("name")),
    "node-type": partial(_stored, _node("op")),
    "node-device": partial(_stored, _node("actual")),
    "node-source": partial(_stored, _node("source")),
    "event": partial(_stored, _event("name")),
    "event-reason": partial(_stored, _event("reason")),
    "event-source": partial(_stored, _event("source")),
    "queue": partial(_stored, _level),
    "kineto-operation": partial(_kineto, partial(_named, "cpu_op")),
    "kineto-range": partial(_kineto, partial(_named, "user_annotation")),
    "kineto-stack": partial(_kineto, partial(_named, "python_function")),
    "kineto-thread": partial(_kineto, partial(_row, "thread_name")),
    "kineto-process": partial(_kineto, partial(_row, "process_name")),
    "kineto-environment": partial(_kineto, _environment),
    "run-command": partial(_run, _command),
    "run-event": partial(_run, partial(_log, "events.jsonl", _EVENT, "name")),
    "run-reason": partial(_run, partial(_log, "events.jsonl", _EVENT, "reason")),
    "run-level": partial(_run, partial(_log, "levels.jsonl", _LEVEL, "name")),
    "run-message": partial(_run, _messages),
    "run-stack": partial(_run, _stack),
    "run-lines": partial(_run, _lines),
}
"""Functions that write an input with texts in one kind of place."""
