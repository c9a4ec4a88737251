"""Generate the page about the rooms of the package, and its drawing, from the imports of code."""

from __future__ import annotations

import ast
import html
import re
import textwrap
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "stepwhy"
DRAWING = "images/rooms.svg"

# The way of data, from a training to a report. A run directory leads from the first to the second;
# each other one imports the one before it, or the other way round.
DATA = (
    ("record",),
    ("read",),
    ("trace",),
    ("analyse",),
    ("diagnose", "predict"),
    ("result",),
    ("show",),
)
INTRODUCTION = f"""\
# The rooms of the package

`src/stepwhy` has sixteen rooms. A room imports only rooms in rows below its own, which
`lint-imports` checks. An arrow from one room to another says that the first imports the second;
only the arrows between neighbouring rows are drawn. The numbers are the way of data, from a
training to its report: `engine` takes it from room to room; `cli`, `api` and `apps` are its doors.

![The rooms of the package, from the command line at the top to base at the bottom](../{DRAWING})

Each room says in its `__init__` what comes in and what goes out. `record` stands apart: it runs
inside of the training, writes a run directory, and knows nothing of the rooms that read it.

"""
CHANGES = {
    "how a file is recognised or read": "`read.formats.<name>`, or `read.shared`",
    "what the name of a kernel stands for": "`read.kernel_names.table`",
    "a counter that each step logs": "`record.steps.meters`, `read.formats.run_directory.step_log`;"
    " its column in `trace.schema`",
    "an event that is logged when it happens": "`record.watchers`",
    "how a signal reaches the training": "`record.launcher`",
    "how a number of the result is computed": "`analyse`, by its subject",
    "when a diagnosis fires, its title and its limits": "`diagnose/<family>/<id>.py`",
    "what a diagnosis advises": "`diagnose/<family>/<id>.md`",
    "when logged events, such as compilations, are many": "`analyse.steps.stalls`",
    "a change that `whatif` knows": "its text in `result.edits`, its effect in `predict`",
    "the sentence of a reason or note": "`result.wording`",
    "a field of the result": "`result`, and `analyse.answers`, which fills it",
    "what reports say, and in which order": "`show.sections`; for sortable tables `show.html`",
    "how reports look, and how much a page shows": "`show.terminal`, `show.html`, `show.markdown`",
    "what the timeline of the page shows": "`show.timeline`; `web/src` draws it",
    "the statistics of `bench`, `compare`, `try`": "`measure`",
    "an option of a command": "`cli`",
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 262, 78, 26, 30, 16
_ROW = 3  # rooms beside each other at most
_STYLE = """\
text{font:12px system-ui,sans-serif;fill:#334155}.n{font-weight:600;font-size:15px;fill:#0f172a}
rect{fill:#f8fafc;stroke:#94a3b8;rx:6}.i{stroke:#94a3b8;fill:none}circle{fill:#4f46e5}
.c{fill:#fff;font-weight:600;text-anchor:middle}"""


_HEAD = (
    '<marker id="h" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0 8 4 0 8z" fill="#94a3b8"/></marker>'
)


class _Box(NamedTuple):
    """Where a room is drawn, px."""

    x: int
    y: int

    @property
    def middle(self) -> int:
        return self.x + _WIDTH // 2


def page() -> str:
    """The text of `explanation/architecture.md`."""
    rows = "\n".join(_row(room) for layer in layers() for room in layer)
    changes = "\n".join(f"| {what} | {place} |" for what, place in CHANGES.items())
    return (
        f"{INTRODUCTION}## Where to change what\n\n| what | where |\n| --- | --- |\n{changes}\n\n"
        f"## The rooms\n\n| room | in | out | imports |\n| --- | --- | --- | --- |\n{rows}\n"
    )


def _row(room: str) -> str:
    rooms = ", ".join(
        f"`{name}`" for layer in layers() for name in layer if name in imports()[room]
    )
    paragraphs = [" ".join(part.split()) for part in _docstring(room).split("\n\n")]
    found = (re.search(r"^In: (.+?)\.? Out: (.+?)\.(?= [A-Z`]|$)", part) for part in paragraphs)
    ways = next(filter(None, found), None)
    if ways is None:
        raise SystemExit(f"the docstring of {room} does not say what comes in and what goes out")
    return f"| `{room}` | {ways[1]} | {ways[2]} | {rooms or 'the standard library'} |"


def _docstring(room: str) -> str:
    return ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """The rooms from top to bottom, as the contract of imports orders them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    found = next(contract for contract in contracts if contract["type"] == "layers")
    return tuple(tuple(name.strip() for name in row.split("|")) for row in found["layers"])


@cache
def imports() -> dict[str, frozenset[str]]:
    """The rooms that each room imports anywhere, also in functions and for types alone."""
    rooms = [room for layer in layers() for room in layer]
    return {room: frozenset(_imported(room)) & frozenset(rooms) - {room} for room in rooms}


def _imported(room: str) -> set[str]:
    found = set()
    for file in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [n.name for n in node.names] if isinstance(node, ast.Import) else []
            found |= {name.split(".")[1] for name in names if name.startswith("stepwhy.")}
    return found


def drawn_imports() -> list[tuple[str, str]]:
    """Imports between rooms of neighbouring rows, without those that follow from others."""
    reached: dict[str, set[str]] = {}
    for room in TopologicalSorter(imports()).static_order():
        reached[room] = set().union(*({r} | reached[r] for r in imports()[room]), set())
    return [
        (room, other)
        for room in imports()
        for other in sorted(imports()[room])
        if not any(other in reached[between] for between in imports()[room])
        and _row_of(other) == _row_of(room) + 1
    ]


def _row_of(room: str) -> int:
    return next(number for number, layer in enumerate(layers()) if room in layer)


def drawing() -> str:
    """The rooms by layer, as SVG."""
    boxes = _boxes()
    if any(not _is_linked(*pair) for pair in pairwise(DATA[1:])):
        raise SystemExit("data takes another way: change DATA in docs/generate_architecture.py")
    width = 2 * _MARGIN + _ROW * _WIDTH + (_ROW - 1) * _GAP_X
    height = max(box.y for box in boxes.values()) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        f"<title>The rooms of stepwhy</title><style>{_STYLE}</style>",
        f"<defs>{_HEAD}</defs>",
        f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
        *(_arrow(boxes[a], boxes[b]) for a, b in drawn_imports()),
        *(_room(name, box) for name, box in boxes.items()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _boxes() -> dict[str, _Box]:
    boxes = {}
    for number, layer in enumerate(layers()):
        free = _ROW - len(layer)
        for place, name in enumerate(layer):
            x = _MARGIN + (place * 2 + free) * (_WIDTH + _GAP_X) // 2
            boxes[name] = _Box(x, _MARGIN + number * (_HEIGHT + _GAP_Y))
    return boxes


def _arrow(a: _Box, b: _Box) -> str:
    """From the lower edge of a room to the upper edge of one below it."""
    y, end = a.y + _HEIGHT, b.y
    bend = (end - y) // 2
    curve = f"M{a.middle} {y}C{a.middle} {y + bend} {b.middle} {end - bend} {b.middle} {end}"
    return f'<path class="i" marker-end="url(#h)" d="{curve}"/>'


def _is_linked(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Whether rooms of one stage import those of the next, or the other way round."""
    return all(a in imports()[b] or b in imports()[a] for a in before for b in after)


def _room(name: str, box: _Box) -> str:
    lines = textwrap.wrap(_docstring(name).partition("\n")[0].replace("`", ""), 38)
    texts = "".join(
        f'<text x="{box.x + 12}" y="{box.y + 38 + 15 * place}">{html.escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}"/>'
        f'<text class="n" x="{box.x + 12}" y="{box.y + 21}">{name}</text>'
        f"{texts}{_number(name, box)}"
    )


def _number(name: str, box: _Box) -> str:
    """The place of a room on the way of data; '' beside it."""
    place = next((number for number, rooms in enumerate(DATA, 1) if name in rooms), None)
    if place is None:
        return ""
    x, y = box.x + _WIDTH - 18, box.y + 17
    return f'<circle cx="{x}" cy="{y}" r="10"/><text class="c" x="{x}" y="{y + 4}">{place}</text>'
