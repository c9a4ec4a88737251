"""Facts about the machine: card, driver, versions, and what may be observed."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from children import run, stepwhy
from clocks import query

_LIMIT_S = 60.0
_QUERY = "name,driver_version,memory.total,clocks.max.sm,power.limit,mig.mode.current"
_NAMES = "name,driver_version"  # which every version knows
_PROFILERS = ("nsys", "ncu", "dcgm", "nv-hostengine")
# In an own process: its names are private, so that any of them may be missing.
_FRAMEWORKS = """
import importlib, importlib.metadata, json
versions, missing, looked_up = [], [], 0
for package in ("torch", "triton", "jax", "jaxlib", "numpy"):
    try:
        versions.append(f"{package} {importlib.metadata.version(package)}")
    except importlib.metadata.PackageNotFoundError:
        pass
def is_there(name):
    try:
        found = importlib.import_module(name.module)
        return bool(eval(name.expression or f"m.{name.name} is not None", {"m": found}))
    except Exception:
        return False
try:
    from stepwhy.record.framework_names import NAMES
    for framework in ("torch", "jax"):
        if any(v.startswith(framework + " ") for v in versions):
            looked_up += len(NAMES[framework])
            missing += [f"{n.module}.{n.name}" for n in NAMES[framework] if not is_there(n)]
except ImportError:
    missing = None
about = {"card": "", "problem": "PyTorch is not installed"}
try:
    import torch
    about["problem"] = ""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        about |= {"card": properties.name, "memory_bytes": properties.total_memory}
except ImportError:
    pass
print(json.dumps({"versions": versions, "missing_names": missing, "names": looked_up, **about}))
"""


def environment(*, tiny: bool) -> dict[str, Any]:
    """The facts.

    Args:
        tiny: Whether the programs run in their smallest size.
    """
    smi = query(_QUERY) or query(_NAMES)
    card = [word.strip() for word in smi.splitlines()[0].split(",")] if smi.strip() else []
    checked = run(stepwhy("check"), _LIMIT_S)
    about: dict[str, Any] = {
        "tiny": tiny,
        "driver": card[1] if len(card) > 1 else "",
        "nvidia_smi": smi.strip(),
        "date": datetime.now().astimezone().date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "ptrace_scope": _text("/proc/sys/kernel/yama/ptrace_scope"),
        "capabilities": _capabilities(),
        "other_profilers": _profilers(),
        "check": checked.output[-6000:] or checked.errors,
    }
    looked_up = run([sys.executable, "-c", _FRAMEWORKS], 2 * _LIMIT_S)
    try:
        about |= json.loads(looked_up.output.splitlines()[-1])
    except (IndexError, ValueError):
        about |= {"card": "", "versions": [], "missing_names": None, "problem": looked_up.failure}
    if card and not about["card"] and not about["problem"]:
        about["problem"] = f"PyTorch cannot use the GPU that nvidia-smi shows: {card[0]}"
    return about


def _profilers() -> list[str]:
    found = set()
    for file in Path("/proc").glob("[0-9]*/comm"):
        name = _text(str(file))
        found |= {each for each in _PROFILERS if name.startswith(each)}
    return sorted(found)


def _capabilities() -> str:
    lines = _text("/proc/self/status").splitlines()
    return next((line.split()[1] for line in lines if line.startswith("CapEff")), "")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
