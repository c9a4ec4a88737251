"""Statements in the code of fixes that change a `tf.data` pipeline, as the program writes them.

Code of a fix says what changes, as a statement about `dataset`: `map(..., ARGUMENT)` is the call of
the function that takes longest, `batch(SIZE)` that which forms batches. `prefetch(...)` follows the
last call, `cache()` the last function whose result is the same in each epoch. `batch(...).map(...)`
says that the first of two calls comes before the second one, which it does not yet. Where all that
is recorded, the program's own statements take their place, with only this new.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.pipeline_stages import calls, stage_name, stage_rows
from stepwhy.diagnose.shared.user_calls import change, laid_out, parsed
from stepwhy.result import Finding
from stepwhy.trace import NULL, Trace

_ASKED = regex(
    r"^dataset = dataset\.(?P<name>map|batch|cache|prefetch)\((?P<given>[^#\n]*)\)[^\n]*$",
    re.MULTILINE,
)
_MOVED = regex(
    r"^dataset = dataset\.(?P<name>batch|take|map)\(\.\.\.\)\.(?P<before>map|cache)\([^\n]*$",
    re.MULTILINE,
)
_CHAINED = regex(r"tf\.data\[(\d+)\]")
_ENDS_SAME = regex(r"Shuffle|Repeat")
_WIDEST = 73  # columns: a terminal of 80 less the indentation of the report


class _Link(NamedTuple):
    """A call of the program that makes a stage of the pipeline.

    Attributes:
        row: Row of the stage; those after it come before it in the pipeline.
        line: Line of the program.
        statement: What it is in.
        place: How many calls of its chain come before it.
    """

    row: int
    line: str
    statement: str
    place: int


def with_pipeline(finding: Finding, facts: Facts) -> Finding:
    """A finding whose fix shows the program's statements, if all that it is about are known.

    Args:
        finding: The finding.
        facts: Facts of the run.
    """
    fix = finding.fix
    if fix is None:
        return finding
    moved = _MOVED.search(fix.code)
    if moved is not None:
        return replace(finding, fix=replace(fix, code=_with_moved(fix.code, moved, facts.trace)))
    return replace(finding, fix=replace(fix, code=_code(fix.code, facts.trace)))


def _with_moved(code: str, moved: re.Match[str], trace: Trace) -> str:
    """The program's statement with one call before another one, if it has both in that order."""
    stages, links = trace.stages, list(_links(trace).values())
    links.sort(key=lambda link: -int(stages.elements[link.row] * stages.processing_ns[link.row]))
    late, early = (
        next((link for link in links if _call_of(link) == moved[which]), None)
        for which in ("name", "before")
    )
    if late is None or early is None or late.statement != early.statement:
        return code
    tree = _statement(early.statement)
    if tree is None or early.place > late.place:
        return code
    # Functions get what those before them return.
    if moved["name"] == "map" and early.place + 1 < late.place:
        return code
    chain = _chain(tree.value)
    tree.value = _object(chain)
    chain.insert(early.place, chain.pop(late.place))
    for call in chain:
        call.func = ast.Attribute(tree.value, _method(call))
        tree.value = call
    return f"{code[: moved.start()]}# {early.line}\n{_text(tree)}{code[moved.end() :]}"


def _call_of(link: _Link) -> str:
    """Name of the method that makes a stage; '' if it is not known."""
    tree = _statement(link.statement)
    return "" if tree is None else _method(_chain(tree.value)[link.place])


def _code(code: str, trace: Trace) -> str:
    asked, links = list(_ASKED.finditer(code)), _links(trace)
    edits: dict[str, list[tuple[_Link, re.Match[str]]]] = {}
    for each in asked:
        link = _link_for(each["name"], trace, links)
        if link is None:
            return code
        is_there = stage_name(trace, link.row).startswith("Prefetch")
        if each["name"] != "prefetch" or not is_there:
            edits.setdefault(link.statement, []).append((link, each))
    if not edits:
        return code
    ordered = sorted(edits.values(), key=lambda found: -max(link.row for link, _ in found))
    texts = [_edited(found) for found in ordered]
    if not all(texts):
        return code
    rest = _ASKED.sub("", code[asked[0].end() :])
    return code[: asked[0].start()] + "\n".join(texts) + re.sub(r"\n{2,}", "\n", rest).rstrip()


def _links(trace: Trace) -> dict[int, _Link]:
    """The calls that make stages, by the rows of those for which there is one at their line."""
    events, stages = trace.events, trace.stages
    made: dict[str, list[tuple[str, int]]] = {}
    for row in np.flatnonzero(np.isin(events.kind, trace.strings_where({"made"}))).tolist():
        place = _CHAINED.fullmatch(trace.string(int(events.name[row])))
        if place and events.reason[row] != NULL and events.source[row] != NULL:
            line = trace.string(int(events.source[row]))
            made.setdefault(line, []).append((trace.string(int(events.reason[row])), int(place[1])))
    found = {}
    for row in stage_rows(trace):
        line = trace.string(int(stages.source[row])) if stages.source[row] != NULL else ""
        at = [each for each in made.get(line, ()) if _makes(*each, stage_name(trace, row))]
        if len(at) == 1:
            found[row] = _Link(row, line.rpartition(": ")[0], *at[0])
    return found


def _makes(statement: str, place: int, stage: str) -> bool:
    """Whether a call of a chain makes such a stage, by the name of its method."""
    tree = _statement(statement)
    chain = [] if tree is None else _chain(tree.value)
    method = chain[place].func if place < len(chain) else None
    if not isinstance(method, ast.Attribute):
        return False
    kind = re.sub(r"^(Parallel|Finite|Forever|Memory|File)|(V\d+)?(\[.*)?$", "", stage)
    return method.attr.replace("_", "") in kind.lower().split("and")


def _link_for(name: str, trace: Trace, links: dict[int, _Link]) -> _Link | None:
    """The call that a statement of a fix is about; None if it is not known."""
    stages, rows = trace.stages, stage_rows(trace)
    if name == "prefetch":
        return next((links[row] for row in rows if row in links), None)
    if name == "batch":
        return next((links.get(r) for r in rows if "Batch" in stage_name(trace, r)), None)
    if name == "map":
        work = {
            row: int(stages.elements[row]) * max(int(stages.processing_ns[row]), 0)
            for row in rows
            if calls(trace, row) and stages.tuned[row] != 1 and stages.parallelism[row] <= 1
        }
        return links.get(max(work, key=lambda row: work[row], default=-1))
    same = -1
    for row in reversed(rows):
        is_new = calls(trace, row) and stages.random[row] != 0
        if is_new or _ENDS_SAME.search(stage_name(trace, row)):
            break
        same = row if calls(trace, row) else same
    return links.get(same)


def _edited(edits: list[tuple[_Link, re.Match[str]]]) -> str:
    """A statement of the program with changes; '' if its arguments are not known."""
    tree = _statement(edits[0][0].statement)
    chain = [] if tree is None else _chain(tree.value)
    if tree is None or any(parsed(ast.unparse(chain[link.place])) is None for link, _ in edits):
        return ""
    # The last calls first, so that the places of the others stay the same.
    for link, asked in sorted(edits, key=lambda edit: -edit[0].place):
        call = ast.parse(f"{asked['name']}({asked['given']})", mode="eval").body
        assert isinstance(call, ast.Call)  # noqa: S101 - it was written as one
        if asked["name"] == "map":
            change(chain[link.place], _method(chain[link.place]), call.keywords)
        elif asked["name"] == "batch":
            size = ast.keyword("batch_size", call.args[0])
            change(chain[link.place], _method(chain[link.place]), [size])
        else:
            # A further call, behind that one.
            assert isinstance(call.func, ast.Name)  # noqa: S101 - it was written as one
            call.func = ast.Attribute(chain[link.place], call.func.id)
            if link.place + 1 < len(chain):
                after = chain[link.place + 1].func
                assert isinstance(after, ast.Attribute)  # noqa: S101 - so are all calls of chains
                after.value = call
            else:
                tree.value = call
    return f"# {edits[0][0].line}\n{_text(tree)}"


def _statement(text: str) -> ast.Assign | ast.Return | ast.Expr | None:
    """A recorded statement; None if it is damaged."""
    try:
        tree = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    only = tree[0] if len(tree) == 1 else None
    return only if isinstance(only, ast.Assign | ast.Return | ast.Expr) else None


def _chain(node: ast.expr | None) -> list[ast.Call]:
    """The calls of a chain, first calls first."""
    found: list[ast.Call] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found.insert(0, node)
        node = node.func.value
    return found


def _object(chain: list[ast.Call]) -> ast.expr:
    """What the first call of a chain is a method of."""
    assert isinstance(chain[0].func, ast.Attribute)  # noqa: S101 - so are all calls of chains
    return chain[0].func.value


def _method(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)  # noqa: S101 - so are all calls of chains
    return call.func.attr


def _text(tree: ast.Assign | ast.Return | ast.Expr) -> str:
    """A statement in one line, or with a line for each call."""
    line = ast.unparse(tree)
    if len(line) <= _WIDEST:
        return line
    chain = _chain(tree.value)
    start = ast.unparse(_object(chain))
    before = line[: len(line) - len(ast.unparse(chain[-1]))]
    links = [ast.Call(ast.Name(_method(call)), call.args, call.keywords) for call in chain]
    first, *others = ("\n".join(laid_out("    .", link).splitlines()) for link in links)
    lines = [f"    {start}{first.strip()}", *others]
    return f"{before}(\n" + "\n".join(lines) + "\n)"
