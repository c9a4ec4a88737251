"""Hostile names: of files, folders, operations, tracks, processes and arguments.

What is judged is what reaches the terminal, the JSON document and the page.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import chdir
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from click.testing import CliRunner

from fuzz.formats import seeds as seeds_of
from fuzz.judge import failure, judged, size_of
from fuzz.mutate.wire import parse, write
from fuzz.printed import broken_document, broken_page, broken_text
from fuzz.run_seeds import run_directories
from fuzz.trees import remove_tree, write_tree
from stepwhy.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from click.testing import Result

    from fuzz.formats import Files
    from fuzz.judge import Outcome, Verdict

_STEERING = (  # the terminal
    *("\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x1b]52;c;ZWNobyBoaQ==\x07", "\x1b[31m", "\x1b"),
    *("\x1b]8;;http://x\x1b\\y", "\x1bP$q\x1b\\", "\x9b31m", "\x9d0;title\x9c", "\x90q\x9c"),
    *("\x07", "\x08\x08", "\r", "\n", "\r\nstepwhy: all is well\r\n", "\t", "\x00", "\x7f", "\x85"),
    *("\x0b\x0c", "\u202e", "\u202atxt.exe", "\u2066\u2067", "\u2028", "\u2029", "\u200f\u061c"),
    *("\u200b\u200d\ufeff", "\ud800", "\udcff", "\udc1b", "\U000e0041", "\ufffe"),
)
_MARKUP = (  # of rich, pages and templates
    *(
        "[red]",
        "[/red]",
        "[bold]x[/",
        "[link=http://x]y[/link]",
        "[@click=x]y[/]",
        ":smile:",
        "\\[",
    ),
    *(
        "[[[",
        "<script>stepwhy(1)</script>",
        "</script><b>stepwhy",
        '"><img src=x onerror=stepwhy()>',
    ),
    *("<!--", "]]>", "{{ 7*7 }}", "{% raw %}", "&lt;", "'\"`", "${x}", "%s%n", "{0}", "{", "}"),
)
_PATHS = (  # shells, options, addresses and globs
    *("../../../etc/passwd", "~root", "$(id)", "`id`", "; id", "-rf", "--json", "--html=x", "-"),
    *("", " ", "file:///etc/passwd", "http://127.0.0.1:1/x", "http://[", "memory://x", "s3://"),
    *("*", "[a-", "?", "**", "C:\\x", "con", "a/" * 2000),
)
_STRANGE = (
    *("\U0001f468\u200d\U0001f469", "e\u0301" * 50, "\u0661", "\u00b2", "NaN", "None", "-1"),
    *("a" * 300, "\u4e2d" * 5000, "(" * 3000, "x " * 3000, "a:" * 3000),
)
_SECRET = "Zq9fuzzsecret7"  # noqa: S105 - to be found where it must not be
_SECRETS = (
    *(f"https://ada:{_SECRET}@host/x", f"https://host/x?sig={_SECRET}&x=1", f"Bearer {_SECRET}"),
    *(f"--password={_SECRET}", f"API_TOKEN={_SECRET}", f"hf_{_SECRET}", f"ghp_{_SECRET}"),
)
_HOSTILE = (*_STEERING, *_MARKUP, *_PATHS, *_STRANGE)
_MOST_NAMES = 6
_LONGEST_FILE_NAME = 255  # bytes
_TEXT_KEYS = re.compile(rb"[ -~\x80-\xff]{2,}")
_SLUG = re.compile(r"\[([a-z-]+)\]\s*$")


@cache
def seeds() -> tuple[Files, ...]:
    """Small traces whose names are text, and run directories."""
    formats = ("kineto", "tf_timeline", "run_metadata", "horovod", "xplane", "chrome_trace")
    traces = [seeds_of(name)[0] for name in formats]
    return (*traces, seeds_of("run_metadata")[1], *run_directories())


def damage(files: Files, random: Random) -> Files:
    """Put hostile names into some files, and give the files hostile names."""
    for name in random.sample(list(files), min(len(files), 1 + random.randrange(3))):
        files[name] = _renamed(name, files[name], random)
    if "run.json" in files:
        return _in_folder(files, random)
    folder = f"{_file_name(random)}/" if random.random() < 0.3 else ""
    first, *_ = files
    suffix = "." + first.partition(".")[2]
    shown = _file_name(random, suffix) if random.random() < 0.5 else first
    return {f"{folder}{shown if name == first else name}": data for name, data in files.items()}


def _in_folder(files: Files, random: Random) -> Files:
    """A run directory in a folder with a hostile name, and now and then such a process in it."""
    folder = _file_name(random)
    process = f"process-{_file_name(random)[:40]}" if random.random() < 0.3 else "process-7"
    return {f"{folder}/{n.replace('process-7', process)}": data for n, data in files.items()}


def _text(random: Random, text: str = "") -> str:
    """A hostile text, or one in another."""
    hostile = random.choice(_HOSTILE)
    if random.random() < 0.2:
        hostile += random.choice(_HOSTILE)
    at = random.randrange(len(text) + 1)
    return hostile if random.random() < 0.3 else f"{text[:at]}{hostile}{text[at:]}"


def _file_name(random: Random, suffix: str = "") -> str:
    """A hostile name of a file that the system takes."""
    name = _text(random, "trace").replace("/", "_").replace("\0", "_").strip(".") or "trace"
    data = name.encode("utf-8", errors="surrogatepass")[: _LONGEST_FILE_NAME - len(suffix)]
    return os.fsdecode(data) + suffix


def _renamed(name: str, data: bytes, random: Random) -> bytes:
    """A file with hostile names in it."""
    if name.endswith((".json", ".jsonl")):
        lines = data.splitlines() if name.endswith(".jsonl") else [data]
        documents = [json.loads(line) for line in lines]
        _rename([place for d in documents for place in _texts_of(d)], random)
        return b"\n".join(_written(document) for document in documents) + b"\n"
    fields = parse(data) if name.endswith(".pb") else None
    if fields is None:
        return data
    _rename(list(_texts_in(fields)), random)
    return write(fields)


def _written(document: Any) -> bytes:
    return json.dumps(document).encode()


def _rename(places: list[tuple[Any, Any]], random: Random) -> None:
    for holder, key in random.sample(places, min(len(places), 1 + random.randrange(_MOST_NAMES))):
        if random.random() < 0.1:
            text = f"op {random.choice(_SECRETS)} x"
            holder[key] = text.encode() if isinstance(holder[key], bytes) else text
        elif isinstance(holder[key], bytes):
            text = _text(random, holder[key].decode(errors="replace"))
            holder[key] = text.encode("utf-8", errors="surrogatepass")
        elif isinstance(holder, dict) and random.random() < 0.1:
            holder[_text(random, str(key))] = holder[key]
        else:
            holder[key] = _text(random, holder[key])


def _texts_of(root: Any) -> Iterator[tuple[Any, Any]]:
    """Where a JSON document has text: the list or object, and the place in it."""
    todo = [root]
    while todo:
        holder = todo.pop()
        for key, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(value, str):
                yield holder, key
            elif isinstance(value, (dict, list)):
                todo.append(value)


def _texts_in(fields: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Where a protobuf message has text: the field, and the place of its value."""
    for field in fields:
        if isinstance(field[2], list):
            yield from _texts_in(field[2])
        elif isinstance(field[2], bytes) and _TEXT_KEYS.fullmatch(field[2]):
            yield field, 2


# --- What is printed ---

_PAGE, _EXPORTED = "page.html", "exported.json"


class OutputJudge:
    """Runs one of the commands, and looks at all that it prints or writes for people."""

    def __call__(self, files: Files, folder: Path) -> Outcome:
        """The outcome of one input.

        Args:
            files: The input: a run directory, or a trace first.
            folder: An empty folder for its files.
        """
        inside = folder / "given"
        inside.mkdir()
        write_tree(files, inside)
        first = next(iter(files), "trace.json")
        above, _, name = first.rpartition("/")
        path = inside / (above if name == "run.json" else first)
        command = _COMMANDS[crc32(b"".join(files.values())) % len(_COMMANDS)]
        try:
            with chdir(path.parent if path.parent.is_dir() else folder):
                return judged(lambda: _judged(command, path, folder), lambda: size_of(files))
        finally:
            remove_tree(folder)


def _judged(command: tuple[str, ...], path: Path, folder: Path) -> Verdict:
    """Run a command and look at its output."""
    places = {"PATH": str(path), "PAGE": str(folder / _PAGE), "OUT": str(folder / _EXPORTED)}
    places |= {"MISSING": f"{path}.missing", "NAME": path.name}
    words = [places.get(word, word) for word in command]
    done = CliRunner(catch_exceptions=True).invoke(cli, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return failure(done.exception)
    broken = next(_broken(done, command, folder), "")
    if broken:
        return "failed", broken.partition(":")[0], f"{words}\n{broken}"
    if done.exit_code == 0:
        return "explained", " ".join(word for word in command if not word.isupper()), ""
    slug = _SLUG.search(done.stderr)
    return "refused", slug[1] if slug else f"exit code {done.exit_code}", done.stderr


def _broken(done: Result, command: tuple[str, ...], folder: Path) -> Iterator[str]:
    is_document = "--json" in command and done.exit_code == 0
    yield from (broken_document if is_document else broken_text)(done.stdout_bytes)
    yield from broken_text(done.stderr_bytes)
    if (folder / _PAGE).exists():
        yield from broken_page((folder / _PAGE).read_bytes())
    if (folder / _EXPORTED).exists():
        json.loads((folder / _EXPORTED).read_bytes())
    yield from _leaks(done, folder)


def _leaks(done: Result, folder: Path) -> Iterator[str]:
    """Secrets of names in what was printed or written."""
    written = [folder / name for name in (_PAGE, _EXPORTED) if (folder / name).exists()]
    for data in (done.stdout_bytes, done.stderr_bytes, *(path.read_bytes() for path in written)):
        at = data.find(_SECRET.encode())
        if at >= 0:
            yield f"secret: {data[max(0, at - 200) : at + 100]!r}"


_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("explain", "PATH"),
    ("explain", "PATH", "--all"),
    ("explain", "PATH", "--json"),
    ("explain", "PATH", "--json", "--html", "PAGE"),
    ("explain", "PATH", "--html", "PAGE"),
    ("ops", "PATH"),
    ("ops", "PATH", "--view", "scope"),
    ("ops", "PATH", "--json"),
    ("placement", "PATH"),
    ("export", "PATH", "--out", "OUT"),
    ("explain", "MISSING"),
    ("explain", "--", "NAME"),
    ("explain", "PATH", "MISSING"),
)
