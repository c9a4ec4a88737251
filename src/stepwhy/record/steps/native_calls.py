"""Name what a frame of Python has called that is not written in Python, and so has no frame.

The compiler notes which expression each instruction belongs to. That of the current one is looked
up in the source, and its name in the variables of the frame, without running any code of theirs.

Source: PEP 657, "Include Fine Grained Error Locations in Tracebacks".
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_BYTES_PER_INSTRUCTION = 2
_ABSENT = object()


def called_natively(frame: FrameType) -> str:
    """The native function that a frame stands in, and its package: 'jaxlib: update'.

    Args:
        frame: The innermost frame of a thread.

    Returns:
        '' if it stands in none, or that is not known.
    """
    try:
        call = ast.parse(_source(frame), mode="eval").body
        if not isinstance(call, ast.Call):
            return ""
        package = _package(_value(frame, call.func))
    except Exception:
        return ""
    return f"{package}: {_name(call.func)}" if package else ""


def _source(frame: FrameType) -> str:
    """The expression that the current instruction belongs to."""
    code = frame.f_code
    place = frame.f_lasti // _BYTES_PER_INSTRUCTION
    first, last, begin, end = next(itertools.islice(code.co_positions(), place, None))
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = linecache.getlines(code.co_filename)[first - 1 : last]
    # Columns count bytes.
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    return b"".join(encoded).decode()


def _value(frame: FrameType, name: ast.expr) -> Any:
    """What a name, with attributes, stands for in a frame."""
    if isinstance(name, ast.Attribute):
        return inspect.getattr_static(_value(frame, name.value), name.attr)
    identifier = name.id if isinstance(name, ast.Name) else ""
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        value = names.get(identifier, _ABSENT)
        if value is not _ABSENT:
            return value
    raise LookupError


def _package(function: Any) -> str:
    """The package of a native function; '' of one in Python."""
    if inspect.isfunction(function) or inspect.isclass(function):
        return ""
    owner = getattr(function, "__objclass__", None)  # of methods
    if owner is None and not inspect.isbuiltin(function):
        owner = type(function)
    return str((owner or function).__module__ or "").partition(".")[0]


def _name(name: ast.expr) -> str:
    """The last part of a name."""
    return name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
