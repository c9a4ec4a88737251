"""Nothing is printed but through `stepwhy.base.output` and `stepwhy.show.console`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src/stepwhy"
THE_WAY = {"base/output.py", "show/console.py"}
# Those that see a stream, and print no name to it.
MAY = {
    "api/watching.py": {"sys.stderr"},  # reads its encoding, and whether it is a terminal
    "record/launcher/status.py": {"sys.stderr"},  # writes the title, which is numbers, and escaped
    "record/checks/probe.py": {"print"},  # answers the process that started it, in ASCII
}
STREAMS = {f"sys.{name}" for name in ("stdout", "stderr", "__stdout__", "__stderr__")}
CALLS = {"print", "click.echo", "click.secho", "click.echo_via_pager", "click.get_text_stream"}
# Most of what a module names ends otherwise, which is seen at once.
LAST = {way.rpartition(".")[2] for way in STREAMS | CALLS}
FROM_RICH = {
    *("rich.print", "rich.get_console", "rich.console.Console", "rich.text.Text"),
    *("rich.progress.Progress", "rich.progress.TextColumn", "rich.progress.track"),
    *("rich.markup.render", "rich.panel.Panel", "rich.pretty.pprint", "rich.live.Live"),
}


def at_run_time(tree):
    """All nodes but those of imports for type checking."""
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                yield node
                waiting.append(node)


def ways_around(source):
    """What a module could print with."""
    for node in at_run_time(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in LAST and ast.unparse(node) in STREAMS:
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if (
                name in LAST and ast.unparse(node.func) in CALLS
            ):
                yield ast.unparse(node.func)
            case ast.Call(func=ast.Attribute(attr="write"), args=[ast.Constant(value=1 | 2), *_]):
                yield "os.write"
            case ast.ImportFrom(module=str(module)):
                names = {f"{module}.{alias.name}" for alias in node.names}
                yield from names & (FROM_RICH | CALLS | STREAMS)
            case ast.Import():
                yield from (a.name for a in node.names if a.name.partition(".")[0] == "rich")


def test_no_module_prints_by_itself():
    modules = {str(path.relative_to(SRC)): path for path in sorted(SRC.rglob("*.py"))}
    found = {
        name: printing
        for name in modules.keys() - THE_WAY
        if (printing := set(ways_around(modules[name].read_text())) - MAY.get(name, set()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print('x')", "print"),
        ("import click\nclick.echo(name, err=True)", "click.echo"),
        ("from click import echo", "click.echo"),
        ("import sys\nsys.stderr.write(name)", "sys.stderr"),
        ("from sys import stdout", "sys.stdout"),
        ("import os\nos.write(2, name)", "os.write"),
        ("from rich.console import Console", "rich.console.Console"),
        ("def f():\n    from rich.text import Text", "rich.text.Text"),
        ("import rich", "rich"),
    ],
)
def test_a_way_around_is_noticed(source, found):
    assert found in set(ways_around(source))


def test_an_import_for_its_type_is_none():
    source = "if TYPE_CHECKING:\n    from rich.console import Console\n"
    assert list(ways_around(source)) == []
