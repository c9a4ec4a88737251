"""Valid run directories, as `stepwhy run` writes them: of PyTorch, TensorFlow 1 and JAX."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.read.tf_samples import EPOCH_NS

from fuzz.formats import seeds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuzz.formats import Files

_STEPS = 12
_MS = 1_000_000
_LINE = "train.py(12): augment"


@cache
def run_directories() -> tuple[Files, ...]:
    """One of each kind: `run.json` first, and at least one process with a window."""
    return (
        {"run.json": _run(), **_process("process-7", _pytorch())},
        {"run.json": _run(), **_process("process-7", _sessions())},
        {"run.json": _run(), **_process("process-7", _calls())},
        {
            "run.json": _run(exit_code=None, ended_ns=None),
            **_process("process-7", _pytorch(rank=0)),
            **_process("process-8", _pytorch(rank=1)),
        },
    )


def _run(**changes: Any) -> bytes:
    about = {
        "schema": "stepwhy.run/1", "stepwhy": "0.1.0", "command": ["python", "train.py", "--lr=1"],
        "started_ns": EPOCH_NS, "ended_ns": EPOCH_NS + 100 * _MS, "exit_code": 0, "oom_kills": 0,
    }  # fmt: skip
    return _json(about | changes)


def _process(name: str, files: Files) -> Files:
    return {f"{name}/{path}": data for path, data in files.items()}


def _pytorch(rank: int | None = None) -> Files:
    """A PyTorch loop with workers, a rotated log, and a window."""
    trace = next(iter(seeds("kineto")[0].values()))
    steps = [_step("step", n, input_wait_ns=n * 1000, cpu_ns=_MS // 2) for n in range(_STEPS)]
    loader = {"name": "DataLoader", "workers": 2, "prefetch_factor": 2}
    return {
        **_logs("pytorch", "2.13.0", steps[_STEPS // 2 :], rank=rank),
        "steps-000000000000.jsonl": _lines(steps[: _STEPS // 2]),
        "loaders.jsonl": _lines([loader]),
        "windows/000/trace.json": trace,
        "windows/000/window.json": _window("steps"),
    }


def _sessions() -> Files:
    """A TensorFlow 1 session: runs, queues, the graph beside the traced run."""
    beside = seeds("run_metadata")[1]
    runs = [_step("run", n, signature=n % 2, gap_cpu_ns=9, fresh=int(not n)) for n in range(_STEPS)]
    return {
        **_logs("tensorflow", "1.15.0", runs),
        **{f"windows/000/{name}": data for name, data in beside.items()},
    }


def _calls() -> Files:
    """Calls of a jitted function, with the pipeline of a `tf.data` input."""
    profile = next(iter(seeds("xplane")[0].values()))
    calls = [_step("call", n, signature=3, compile_ns=7 if n < 2 else 0) for n in range(_STEPS)]
    stage = {"id": 1, "name": "ParallelMapV2", "inputs": [2], "asynchronous": True, "elements": 9}
    other = {"id": 2, "name": "TFRecord", "processing_ns": _MS, "buffer_size": 4, "parallelism": 2}
    return {
        **_logs("jax", "0.10.0", calls),
        "pipeline.json": _json({"stages": [stage, other]}),
        "windows/000/trace.xplane.pb": profile,
        "windows/000/window.json": _window("steps"),
    }


def _logs(framework: str, version: str, steps: list[Any], **about: Any) -> Files:
    """What every process has."""
    process = {"pid": 7, "framework": framework, "framework_version": version, "ended_ns": None}
    events = [_EVENT | _times(n) for n in range(3)]
    gpu = {"index": 0, "name": "A100", "utilisation_percent": 50, "used_bytes": 1 << 30}
    counters = [
        {"time_ns": EPOCH_NS + n * _MS, "cpu_ns": n * _MS, "resident_bytes": n << 20,
         "threads": 9, "cores": 4, "gpus": [gpu | {"sm_clock_mhz": 1400 - n}]}
        for n in range(_STEPS)
    ]  # fmt: skip
    level = {"kind": "tf.data", "name": "Prefetch[1]", "capacity": 8}
    samples = [{"role": "driver", "line": _LINE, "leaf": "numpy", "count": 40, "entry": "map"}]
    stretch = {"start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 9 * _MS, "interval_ns": 7 * _MS}
    return {
        "process.json": _json({**process, **about}),
        "steps.jsonl": _lines(steps),
        "events.jsonl": _lines([*events, *(event | _times(4) for event in _WALK)]),
        "levels.jsonl": _lines([{**level, "time_ns": _at(n), "value": n % 8} for n in range(9)]),
        "counters.jsonl": _lines(counters),
        "messages.jsonl": _lines([{"level": "warning", "slug": "loop-inside", "text": "a loop"}]),
        "stacks.json": _json({"stretches": [stretch | {"samples": samples}]}),
        "semantic.json": _json(_SEMANTICS),
        "lines.json.gz": gzip.compress(_json(_NOTED_LINES), compresslevel=1, mtime=0),
    }


_EVENT = {"kind": "compile", "name": "f", "reason": "shape", "source": _LINE, "count": 2}
_WALK = (
    {"kind": "gradient-walk", "name": "3-17 19", "reason": "20", "source": _LINE, "count": 30},
    {"kind": "unowned-parameters", "name": "teacher", "reason": "4", "count": 4096},
    {"kind": "gradient-walk", "name": "", "reason": "parts of the graph are compiled"},
)
_SEMANTICS = {
    "schema": "stepwhy.semantic/1",
    "names": ["aten::embedding", "aten::mm", "aten::to"],
    "ops": [0, 2, 1, 1],
    "padding": [750, 750, 750, 0],
    "lines": [_LINE],
    "constant": [-1, 0, -1, 0],
    "inputs": [
        {"op": "aten::embedding", "line": _LINE, "rows": 16, "columns": 128, "padded": 96},
        {"op": "aten::embedding", "rows": 4, "columns": 8, "padded": 0, "at_start": True},
    ],
}


_NOTED = {
    "op": [-1, 0, -1, 1, 2, -1, 3, -1],
    "line": [4, 4, 5, 5, 5, 4, 4, -1],
    "dur_ns": [_MS, _MS // 2, 90, _MS, _MS, 0, 7, 1],
    "engine": [0, 0, 0, 0, 1, 0, 0, 0],
}
_NOTED_LINES = {
    "schema": "stepwhy.lines/1",
    "strings": ["aten::to", "aten::mm", "aten::add_", "aten::zero_", _LINE, "train.py(20): step"],
    "steps": [{"step": 9, **_NOTED}, {"step": 10, **_NOTED}],
}


def _window(kind: str) -> bytes:
    return _json({"kind": kind, "start_ns": EPOCH_NS, "end_ns": EPOCH_NS + _MS, "clock_set_ns": 0})


def _step(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, **_times(number), "profiled": int(number in {4, 5}), **more}


def _times(number: int) -> dict[str, int]:
    return {"start_ns": _at(number), "end_ns": _at(number + 1)}


def _at(number: int) -> int:
    return EPOCH_NS + number * _MS


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def _lines(records: Iterable[Any]) -> bytes:
    return b"".join(_json(record) + b"\n" for record in records)
