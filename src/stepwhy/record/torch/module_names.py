"""The modules that parameters belong to, by the names that the program gives them."""

from __future__ import annotations

import gc
import re
import sys
from collections import Counter
from itertools import chain
from linecache import getline
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import user_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

_MOST_NAMED = 6
_MOST_FRAMES = 30
_MOST_FUNCTIONS = 500  # of the program whose lines are searched for a call


class Named(NamedTuple):
    """Parameters of one module.

    Args:
        name: The module, or the shape of a parameter without one.
        parameters: How many.
        elements: How many elements they have.
        line: The line that calls the module, or the part of the program's own module that it is
            in, 'model.py(84): forward'; '' if none or several do.
    """

    name: str
    parameters: int
    elements: int
    line: str = ""


def named(leaves: list[Any]) -> list[Named]:
    """The modules of some parameters, those with most elements first."""
    names = _names({id(leaf) for leaf in leaves}) if leaves else {}
    counts: Counter[tuple[str, str]] = Counter()
    elements: Counter[tuple[str, str]] = Counter()
    for leaf in leaves:
        key = names.get(id(leaf)) or (f"shape {' x '.join(map(str, leaf.shape))}", "")
        counts[key] += 1
        elements[key] += leaf.numel()
    most = elements.most_common(_MOST_NAMED)
    return [Named(name, counts[name, line], size, line) for (name, line), size in most]


def _names(wanted: set[int]) -> dict[int, tuple[str, str]]:
    """The module of each parameter, 'teacher' if it is a global variable, and who calls it."""
    found: dict[int, tuple[str, str]] = {}
    of_variables = ((name, module, True) for name, module in _global_modules(sys._getframe(1)))
    of_classes = ((name, module, False) for name, module in outermost_modules())
    for name, module, is_variable in chain(of_variables, of_classes):
        paths = {id(p): path for path, p in module.named_parameters()}
        lines: dict[str, str] = {}
        for key in paths.keys() & wanted:
            # The whole module, or the part of it that has the parameter.
            within = paths[key].rpartition(".")[0] if paths.keys() - wanted else ""
            part = within.partition(".")[0]
            if part not in lines:
                alone = _calling_global(name) if is_variable else ""
                lines[part] = _calling(module, part) if part else alone
            found.setdefault(key, (f"{name}.{within}" if within else name, lines[part]))
        if len(found) == len(wanted):
            break
    return found


def _calling(module: Any, part: str) -> str:
    """The line of a module's `forward` that calls a part of it; '' if none or several do."""
    forward = getattr(type(module), "forward", None)
    return _only_call([getattr(forward, "__code__", None)], rf"self\.{re.escape(part)}\s*\(")


def _calling_global(name: str) -> str:
    """The line of the program that calls a global variable; '' if none or several do."""
    codes: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if user_file(frame.f_code.co_filename):
            values = list(frame.f_globals.values())
            codes += [frame.f_code, *(v.__code__ for v in values if type(v) is FunctionType)]
        frame = frame.f_back
    return _only_call(codes[:_MOST_FUNCTIONS], rf"(?<![\w.]){re.escape(name)}\s*\(")


def _only_call(codes: list[Any], pattern: str) -> str:
    """The only line of some code that matches a pattern as it is in its file; '' if not one."""
    found = set()
    for code in codes:
        name = user_file(code.co_filename) if isinstance(code, CodeType) else ""
        numbers = {line for *_, line in code.co_lines() if line} if name else set()
        found |= {
            f"{name}({number}): {code.co_name}"
            for number in numbers
            if re.search(pattern, getline(code.co_filename, number))
        }
    return found.pop() if len(found) == 1 else ""


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
