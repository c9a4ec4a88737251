"""The modules that parameters belong to, by the names that the program gives them."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

_MOST_NAMED = 6
_MOST_FRAMES = 30


def named(leaves: list[Any]) -> list[tuple[str, int, int]]:
    """Modules, how many of the leaves each has, and elements; shapes of leaves without a module."""
    names = _names({id(leaf) for leaf in leaves}) if leaves else {}
    counts: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    for leaf in leaves:
        name = names.get(id(leaf)) or f"shape {' x '.join(map(str, leaf.shape))}"
        counts[name] += 1
        elements[name] += leaf.numel()
    return [(name, counts[name], size) for name, size in elements.most_common(_MOST_NAMED)]


def _names(wanted: set[int]) -> dict[int, str]:
    """The module of each parameter: 'teacher' if it is a global variable, else its class."""
    found: dict[int, str] = {}
    for name, module in chain(_global_modules(sys._getframe(1)), outermost_modules()):
        paths = {id(p): path for path, p in module.named_parameters()}
        for key in paths.keys() & wanted:
            # The whole module, or the part of it that has the parameter.
            within = paths[key].rpartition(".")[0] if paths.keys() - wanted else ""
            found.setdefault(key, f"{name}.{within}" if within else name)
        if len(found) == len(wanted):
            break
    return found


def _global_modules(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Modules among the global variables of the calling frames.

    Before Python 3.13, reading the local ones copies them into a dictionary that lives as long as
    the frame, and would keep a graph alive.
    """
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        for name, value in list(frame.f_globals.items()):
            if _is_module(value):
                yield name, value
        frame = frame.f_back


def outermost_modules() -> Iterator[tuple[str, Any]]:
    """Modules that are in no other one, with the names of their classes."""
    modules = [each for each in gc.get_objects() if _is_module(each)]
    inner = {id(child) for module in modules for child in module.children()}
    for module in modules:
        if id(module) not in inner:
            yield type(module).__name__, module


def _is_module(value: object) -> bool:
    # `type`, since objects may answer `isinstance` by code of their own.
    modules: Any = sys.modules["torch.nn"]
    return issubclass(type(value), modules.Module)
