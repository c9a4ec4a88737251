"""The page of what Python programs can call, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any

import stepwhy
from stepwhy import testing
from stepwhy.api import explanation, prediction, trace_ready, watching
from stepwhy.record import explicit_steps
from stepwhy.result.predictions import WhatIfResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Table = Callable[[tuple[str, ...], list[tuple[str, str]]], str]

INTRODUCTION = """\
Importing `stepwhy` imports nothing else: each function is loaded when it is first used.

How to use them: [From a notebook or from code](../how-to/notebooks.md),
[Share a report](../how-to/share-a-report.md),
[What would a change gain?](../how-to/predict-a-change.md) and
[Tests with pytest](../how-to/test-the-step-time.md#tests-with-pytest).
"""
_TESTING = """\
## `stepwhy.testing`

The fixture `step_time` of pytest returns a `StepTime`.
"""
# Where `stepwhy` finds its functions, and what they return.
_FUNCTIONS: dict[str, tuple[Any, type | None]] = {
    "explain": (explanation.explain, explanation.Explanation),
    "on_trace_ready": (trace_ready.on_trace_ready, trace_ready.TraceReady),
    "step": (explicit_steps.step, None),
    "watch": (watching.watch, watching.Watch),
    "whatif": (prediction.whatif, WhatIfResult),
}
_LONGEST_LINE = 88  # characters of a signature
_ONE_LINE = 1000  # the same in the cell of a table


def parts(table: Table) -> Iterator[str]:
    """The page behind its title, in parts.

    Args:
        table: Makes a Markdown table of a head and rows.
    """
    yield INTRODUCTION
    for name in stepwhy.__all__:
        if name != "__version__":
            yield from _function(name, table)
    yield _TESTING
    for name in testing.__all__:
        yield from _class(getattr(testing, name), table)


def _function(name: str, table: Table) -> Iterator[str]:
    function, returned = _FUNCTIONS[name]
    yield f"## `stepwhy.{name}`\n\n```python\n{signature(f'stepwhy.{name}', function)}\n```\n"
    yield from _documentation(function, table)
    if returned is not None:
        yield from _class(returned, table)


def _class(kind: type, table: Table) -> Iterator[str]:
    yield f"### `{kind.__name__}`\n"
    found = sections(inspect.getdoc(kind) or "")
    yield f"{_prose(found[''])}\n"
    rows = items(found.get("Args", "")) if hasattr(kind, "__struct_fields__") else []
    rows = [(f"`.{name}`", text) for name, text in rows]
    rows += [(_member(name, part), _meaning(part)) for name, part in _public(kind)]
    if rows:
        yield table(("member", "meaning"), rows)


def _public(kind: type) -> list[tuple[str, Any]]:
    """Properties and methods that a class defines itself, in the order of its source."""
    return [
        (name, part)
        for name, part in vars(kind).items()
        if not name.startswith("_") and isinstance(part, property | FunctionType)
    ]


def _member(name: str, part: Any) -> str:
    if isinstance(part, property):
        return f"`.{name}`"
    return f"`.{signature(name, part, longest=_ONE_LINE)}`"


def _meaning(part: Any) -> str:
    """The prose of a member's docstring, and what it raises."""
    found = sections(inspect.getdoc(part) or "")
    raised = [f"Raises `{name}`: {text}" for name, text in items(found.get("Raises", ""))]
    return " ".join([_prose(found[""]).replace("\n\n", " "), *raised])


def _documentation(function: Any, table: Table) -> Iterator[str]:
    found = sections(inspect.getdoc(function) or "")
    yield f"{_prose(found[''])}\n"
    for title, head in (("Args", "argument"), ("Raises", "raises")):
        rows = [(f"`{name}`", text) for name, text in items(found.get(title, ""))]
        if rows:
            yield table((head, "meaning"), rows)
        if title == "Args" and "Returns" in found:
            yield f"Returns: {_one_line(found['Returns'])}\n"


def signature(name: str, function: Any, longest: int = _LONGEST_LINE) -> str:
    """A call of a function with its annotations, on as many lines as it needs.

    Args:
        name: Name to print.
        function: The function; `self` is left out.
        longest: Characters on one line.
    """
    found = inspect.signature(function)
    texts = []
    for one in found.parameters.values():
        starred = any(text.startswith("*") for text in texts)
        if one.kind is one.KEYWORD_ONLY and not starred:
            texts.append("*")
        if one.name != "self":
            texts.append(_unquoted(str(one)))
    end = f" -> {_unquoted(str(found.return_annotation))}"
    line = f"{name}({', '.join(texts)}){end}"
    if len(line) <= longest:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){end}"])


def _unquoted(text: str) -> str:
    """An annotation that is stored as text, without its quotes."""
    return re.sub(r"(: )'([^']*)'", r"\1\2", text).strip("'")


def sections(docstring: str) -> dict[str, str]:
    """The sections of a Google docstring by title; prose has the title ''."""
    pieces = re.split(r"^(Args|Returns|Raises):\n", docstring, flags=re.MULTILINE)
    named = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return {"": pieces[0].strip()} | named


def items(section: str) -> list[tuple[str, str]]:
    """The names of a section `Args` or `Raises`, with what is said of each."""
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    return [(name, _prose(_one_line(text))) for name, text in found]


def _prose(text: str) -> str:
    """Text in which `<name>` outside of code is no HTML."""
    return re.sub(r"`[^`]*`|<", lambda part: "&lt;" if part[0] == "<" else part[0], text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
