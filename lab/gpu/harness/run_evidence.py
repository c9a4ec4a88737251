"""What a run directory holds: the evidence for the live points."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# What is kept of steps whose operations, or lines, are looked at.
_KEPT = ("semantic.json", "lines.json.gz")
_MOST_STEPS = 200  # whose times are kept as evidence


def evidence(run: Path) -> dict[str, Any]:
    """What was recorded in a run.

    Args:
        run: A run directory.
    """
    found: dict[str, Any] = {"windows": [], "steps": [], "messages": [], "gpus": []}
    found["stack_samples"] = any(run.glob("process-*/stacks.json"))
    found["kept"] = sorted({file.name for file in run.glob("process-*/*") if file.name in _KEPT})
    found["refused"] = []
    for process in sorted(run.glob("process-*")):
        found["windows"] += [_window(folder) for folder in sorted(process.glob("windows/[0-9]*"))]
        found["steps"] += _steps(process / "steps.jsonl")
        found["refused"] += [
            line.get("reason", "") for line in _lines(process / "events.jsonl")
            if line.get("kind") == "semantic-step"
        ]  # fmt: skip
        found["messages"] += [line.get("slug", "") for line in _lines(process / "messages.jsonl")]
        samples = _lines(process / "counters.jsonl")
        found["gpus"] += [gpu for line in samples for gpu in line.get("gpus", ())]
    return {**found, "gpu_samples": len(found["gpus"]), "gpus": found["gpus"][-1:]}


def _steps(file: Path) -> list[list[float]]:
    """Duration in ms and whether it was profiled, of each step."""
    lines = [line for line in _lines(file) if "start_ns" in line and "end_ns" in line]
    return [
        [(line["end_ns"] - line["start_ns"]) / 1e6, line.get("profiled", 0)]
        for line in lines[:_MOST_STEPS]
    ]


def _window(folder: Path) -> dict[str, Any]:
    about = _read(folder / "window.json")
    found = {key: about.get(key) for key in ("first_step", "last_step", "kernels_missing")}
    file = folder / "trace.json.gz"
    if not file.is_file():
        files = [each for each in folder.iterdir() if each.is_file()]
        return {**found, "bytes": sum(each.stat().st_size for each in files)}
    try:
        trace = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, ValueError, EOFError) as error:
        return {**found, "unreadable": type(error).__name__}
    events = [e for e in trace.get("traceEvents", []) if isinstance(e, dict)]
    kernels = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    properties = trace.get("deviceProperties") or [{}]
    return {
        **found,
        "bytes": file.stat().st_size,
        "kernels": len(kernels),
        "with_shapes": sum("Input Dims" in (e.get("args") or {}) for e in events),
        "sync_events": sum(e.get("cat") == "cuda_sync" for e in events),
        "device_properties": sorted(properties[0]),
    }


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in found if isinstance(line, dict)]


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
