"""All outputs of stepwhy for an input, as text."""

from __future__ import annotations

import gzip
import re
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from click.testing import CliRunner

from stepwhy.cli import cli
from stepwhy.trace.header import header_of
from stepwhy.trace.store import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _printed(words: str, path: Path, _folder: Path, *options: str) -> str:
    """Output of a command; `PATH` stands for the input."""
    command = [str(path) if word == "PATH" else word for word in words.split()]
    done = CliRunner().invoke(cli, [*command, *options])
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    return done.output


def _page(path: Path, folder: Path, *options: str) -> str:
    page = folder / "page.html"
    printed = _printed(f"explain PATH --html {page}", path, folder, *options)
    return printed + (page.read_text() if page.exists() else "")


def _export(form: str, name: str, read: Callable[[Path], str]) -> Callable[..., str]:
    def output(path: Path, folder: Path, *options: str) -> str:
        out = folder / name
        printed = _printed(f"export PATH --to {form} --out {out}", path, folder, *options)
        return printed + (read(out) if out.exists() else "")

    return output


def _tables(folder: Path) -> str:
    return "".join(str(pq.read_table(file).to_pylist()) for file in sorted(folder.iterdir()))


def _events(folder: Path) -> str:
    return "".join(file.read_bytes().decode(errors="replace") for file in folder.iterdir())


def _text(path: Path) -> str:
    return path.read_text()


def _unpacked(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _store(path: Path) -> str:
    trace = load(path.read_bytes(), path.name)
    return "\n".join([str(header_of(trace)), *trace.strings])


def _queried(query: str, path: Path, _folder: Path, *options: str) -> str:
    done = CliRunner().invoke(cli, ["sql", str(path), query, "--format", "json", *options])
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    return done.output


OUTPUTS: dict[str, Callable[..., str]] = {
    "terminal": partial(_printed, "explain PATH"),
    "terminal-all": partial(_printed, "explain PATH --all"),
    "json": partial(_printed, "explain PATH --json"),
    "html": _page,
    "ops": partial(_printed, "ops PATH --top 500"),
    "ops-json": partial(_printed, "ops PATH --json"),
    "ops-scope": partial(_printed, "ops PATH --view scope --json"),
    "ops-graph": partial(_printed, "ops PATH --view graph --json"),
    "ops-code": partial(_printed, "ops PATH --view code --json"),
    "ops-tree": partial(_printed, "ops PATH --view tree --json"),
    "sql": partial(_queried, "from slices full join ops using (name)"),
    "sql-findings": partial(_queried, "from findings"),
    "placement": partial(_printed, "placement PATH"),
    "placement-json": partial(_printed, "placement PATH --json"),
    "placement-two": partial(_printed, "placement PATH PATH"),
    "compare": partial(_printed, "compare PATH PATH"),
    "compare-json": partial(_printed, "compare PATH PATH --json"),
    "chrome-trace": _export("chrome-trace", "x.json", lambda p: p.read_text()),
    "perfetto": _export(
        "perfetto", "x.json.gz", lambda p: gzip.decompress(p.read_bytes()).decode()
    ),
    "speedscope": _export("speedscope", "x.json", lambda p: p.read_text()),
    "parquet": _export("parquet", "x.parquet", _tables),
    "store": _export("stepwhy", "x.stepwhy", _store),
    "tensorboard": _export("tensorboard", "x.tensorboard", _events),
}
"""Functions from (path of an input, a folder, further options) to the text of an output."""


def without_layout(text: str) -> str:
    """A text without spaces, line breaks and table borders."""
    return re.sub(r"[\s│┃|─]+", "", text)
