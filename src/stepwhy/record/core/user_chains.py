"""Find the chain of calls that a line of the program is in: `data = data.map(f).batch(8)`.

The position of an instruction only shows the one call that it makes, and of a chain over several
lines only the part from the method's name on. The file is therefore parsed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import sys
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import is_users_file, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_LONGEST = 400  # characters
_MOST_LINES = 5000  # of a file; parsing them takes less than 0.1 s
_MOST_CALLS = 200  # of a process; it looks for no more
_BYTES_PER_INSTRUCTION = 2


class Chained(NamedTuple):
    """A call in a chain of calls.

    Attributes:
        line: Its line, as from `user_line`; '' if no frame is of the user's code.
        statement: The statement that is the chain, assigns or returns it, on one line. Else the
            chain. If that is very long, only the call, as one of `dataset`. '' if unknown.
        place: How many calls of the chain come before it.
    """

    line: str
    statement: str = ""
    place: int = 0


# The code is kept, so that its identity stays its own; to hash code takes as long as to read it.
_known: dict[tuple[int, int], tuple[CodeType, Chained]] = {}


def user_chain() -> Chained:
    """The chain that the innermost frame of the user's code calls a method in."""
    at: FrameType | None = sys._getframe(1)
    while at is not None and not is_users_file(at.f_code.co_filename):
        at = at.f_back
    if at is None:
        return Chained("")
    key = (id(at.f_code), at.f_lasti)
    if key in _known:
        return _known[key][1]
    found = Chained(line_of(at))
    if len(_known) < _MOST_CALLS:
        with contextlib.suppress(Exception):  # a file may be anything
            found = Chained(found.line, *_called(at))
        _known[key] = at.f_code, found
    return found


def _called(frame: FrameType) -> tuple[str, int]:
    """Statement and place of the call that a frame makes; needs the positions of Python 3.11."""
    code = frame.f_code
    positions = islice(code.co_positions(), frame.f_lasti // _BYTES_PER_INSTRUCTION, None)
    first, last, begin, end = next(positions)
    if first is None or last is None or begin is None or end is None:
        return "", 0
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    tree = _parsed("".join(lines)) if len(lines) <= _MOST_LINES else None
    for statement in _statements_at(tree, first):
        for chain in _chains(statement):
            for place, call in enumerate(chain):
                if _position(call) in ((first, begin, last, end), (first, begin)):
                    return _shown(_text(statement, chain), call, place)
    return "", 0


@functools.lru_cache(maxsize=1)
def _parsed(source: str) -> ast.Module:
    """A file, mostly that of the last call."""
    return ast.parse(source)


def _statements_at(node: ast.AST | None, line: int) -> Iterator[ast.stmt]:
    """The statements that a line is in, outer ones first."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, None) or ():
            above = getattr(inner, "decorator_list", None) or [inner]
            if getattr(above[0], "lineno", line) <= line <= getattr(inner, "end_lineno", line):
                if isinstance(inner, ast.stmt):
                    yield inner
                yield from _statements_at(inner, line)


def _shown(text: str, call: ast.Call, place: int) -> tuple[str, int]:
    """Statement and place of a call, see `Chained`."""
    if len(text) <= _LONGEST:
        return text, place
    assert isinstance(call.func, ast.Attribute)  # noqa: S101 - so are all calls of chains
    own = ast.unparse(ast.Call(ast.Name(call.func.attr), call.args, call.keywords))
    return f"dataset.{own}" if len(own) <= _LONGEST else "", 0


def _chains(statement: ast.stmt) -> Iterator[list[ast.Call]]:
    """The chains of calls in a statement, apart from the statements in it; first calls first."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        chain: list[ast.Call] = []
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            chain.insert(0, node)
            waiting += [*node.args, *(keyword.value for keyword in node.keywords)]
            node = node.func.value
        if chain:
            yield chain
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


def _text(statement: ast.stmt, chain: list[ast.Call]) -> str:
    """A statement that does no more than make, assign or return a chain; else the chain."""
    is_whole = getattr(statement, "value", None) is chain[-1]
    whole = isinstance(statement, ast.Return) or (
        isinstance(statement, ast.Assign) and len(statement.targets) == 1
    )
    return ast.unparse(statement if is_whole and whole else chain[-1])


def _position(call: ast.Call) -> tuple[int, ...]:
    """Where the instruction of a call is: its beginning and end, as lines and columns.

    Line and column of the method's name, if what it is of begins on another line.
    Source: `update_start_location_to_match_attr` in Python/compile.c of Python 3.11 to 3.13.
    """
    method = call.func
    assert isinstance(method, ast.Attribute)  # noqa: S101 - so are all calls of chains
    line, end, column = method.end_lineno or 0, call.end_lineno or 0, method.end_col_offset or 0
    if method.lineno != line:
        return line, column - len(method.attr.encode())
    return method.lineno, method.col_offset, end, call.end_col_offset or 0
