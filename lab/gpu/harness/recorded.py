"""What a run directory holds: the evidence for the live points, and what is kept of it."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_MOST_STEPS = 200  # whose times are kept as evidence
_KEPT = ("report.html", "report.txt", "result.json")  # made again from the rest


def evidence(run: Path) -> dict[str, Any]:
    """What was recorded in a run.

    Args:
        run: A run directory.
    """
    found: dict[str, Any] = {"windows": [], "steps": [], "messages": [], "gpu_samples": 0}
    found["stack_samples"] = any(run.glob("process-*/stacks.json"))
    for process in sorted(run.glob("process-*")):
        found["windows"] += [_window(folder) for folder in sorted(process.glob("windows/[0-9]*"))]
        found["steps"] += _steps(process / "steps.jsonl")
        found["messages"] += [line.get("slug", "") for line in _lines(process / "messages.jsonl")]
        counters = (process / "counters.jsonl",)
        found["gpu_samples"] += sum(bool(line.get("gpus")) for f in counters for line in _lines(f))
    return found


def _steps(file: Path) -> list[list[float]]:
    """Duration in ms and whether it was profiled, of each step."""
    lines = [line for line in _lines(file) if "start_ns" in line and "end_ns" in line]
    return [
        [(line["end_ns"] - line["start_ns"]) / 1e6, line.get("profiled", 0)]
        for line in lines[:_MOST_STEPS]
    ]


def _window(folder: Path) -> dict[str, Any]:
    about = _read(folder / "window.json")
    found = {key: about.get(key) for key in ("first_step", "last_step", "start_ns", "end_ns")}
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
        "device_ms": _union([(float(e["ts"]), float(e["dur"])) for e in kernels]) / 1e3,
        "with_shapes": sum("Input Dims" in (e.get("args") or {}) for e in events),
        "sync_events": sum(e.get("cat") == "cuda_sync" for e in events),
        "device_properties": sorted(properties[0]),
    }


def _union(spans: list[tuple[float, float]]) -> float:
    """Time that at least one span covers."""
    total, reached = 0.0, float("-inf")
    for start, length in sorted(spans):
        end = start + length
        total += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return total


def reduce(run: Path, most_bytes: int) -> list[str]:
    """Remove what explaining a run again does not need; returns the windows that were left out.

    Args:
        run: A run directory.
        most_bytes: Size above which a window is left out.
    """
    for name in _KEPT:
        (run / name).unlink(missing_ok=True)
    left_out = []
    for file in run.glob("process-*/windows/*/*"):
        if file.is_file() and file.stat().st_size > most_bytes:
            left_out.append(f"{file.parent.name}: {file.stat().st_size / 2**20:.1f} MiB")
            file.unlink()
    return left_out


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
