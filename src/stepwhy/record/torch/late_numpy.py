"""NumPy, imported when something of it is first used: not every job has to load it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    found = getattr(import_module("numpy"), name)
    globals()[name] = found
    return found
