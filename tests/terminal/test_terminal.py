"""What every command prints when all names attack the terminal, as bytes of a pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest

from stepwhy.base.text import LONGEST_LINE
from stepwhy.cli import cli
from tests.show.conftest import SAMPLES
from tests.terminal.hostile import BAD_FILES, BYTES, FOLDER, NAME, write_inputs
from tests.test_errors import leaves

# Each worker would run all sessions again.
pytestmark = pytest.mark.xdist_group("terminal")
ROOT = Path(__file__).resolve().parents[2]


class Terminal(NamedTuple):
    columns: int
    environment: dict[str, str]


TERMINALS = {
    "colours-40": Terminal(40, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}),
    "no-color-200": Terminal(200, {"TERM": "xterm-256color", "NO_COLOR": "1"}),
    "dumb-40": Terminal(40, {"TERM": "dumb"}),
}
TRACE, SCRIPT = f"{FOLDER}/{NAME}.json", f"{FOLDER}/{NAME}.py"
NOT_UTF8, RANKS = f"{FOLDER}/{BYTES}.json", f"ranks{NAME}"
MISSING = f"none{NAME}"
QUICK = ["--repeats", "1", "--allow-busy"]
# Of each command: exit code (None: it depends on the machine), arguments, and what is planted to
# make it fail or to save time.
CASES = {
    "stepwhy": [
        (2, [f"x{NAME}"], {}),
        (2, [f"x{NAME}.py", NAME], {}),
        (2, [TRACE, NAME], {}),
        (2, [f"--no{NAME}"], {}),
        (0, ["-h"], {}),
        (0, ["--version"], {}),
        (None, [], {}),  # 0 with click before 8.2
    ],
    "stepwhy explain": [
        (0, [TRACE], {}),
        (0, [TRACE, "--all"], {}),
        (0, [TRACE, "--json"], {}),
        (0, [TRACE, "--markdown"], {}),
        (0, [NOT_UTF8, "--format", "markdown", "--all"], {}),
        (0, [TRACE, "--format", "problems"], {}),
        (2, [TRACE, "--format", NAME], {}),
        (2, [TRACE, "--format", "text", "--markdown"], {}),
        (0, [TRACE, "--html", f"page{NAME}.html"], {}),
        (4, [TRACE, "--html", f"{MISSING}/page.html"], {}),
        (0, [NOT_UTF8, "--all", "--html", f"{BYTES}.html"], {}),
        (0, [NOT_UTF8, "--json"], {}),
        (0, [RANKS], {}),
        (0, [RANKS, "--json"], {}),
        (0, [f"others{NAME}"], {}),
        (0, [FOLDER], {}),
        (0, ["long.json", "--all"], {}),
        (3, [MISSING], {}),
        (3, [f"{MISSING}*"], {}),
        (3, [f"https://127.0.0.1:9/{NAME}"], {}),
        (3, [f"{NAME}://{NAME}"], {}),
        (2, [f"--no{NAME}"], {}),
        (2, [TRACE, f"--html={FOLDER}"], {}),
        *((3, [f"{FOLDER}/]{name}{NAME}"], {}) for name in BAD_FILES),
        *((0, ["x", "--all"], {"sample": name}) for name in SAMPLES),
        # Several runs are an error only for a page and for JSON.
        *((leaf.exit_code, ["x", "--html", "y"], {"error": leaf.slug}) for leaf in leaves()),
        ("ValueError", ["x"], {"bug": ""}),
    ],
    "stepwhy export": [
        (0, [TRACE], {}),
        (0, [NOT_UTF8, "--out", f"{BYTES}.out.json"], {}),
        (0, [NOT_UTF8, "--out", f"{BYTES}.out.pq", "--to", "parquet"], {}),
        (0, [NOT_UTF8, "--out", f"{BYTES}.out.stepwhy", "--to", "stepwhy"], {}),
        (4, [TRACE], {}),
        (0, [TRACE, "--overwrite"], {}),
        (4, [TRACE, "--out", TRACE], {}),
        (4, [TRACE, "--out", f"{MISSING}/{NAME}.json"], {}),
        (2, [TRACE, "--to", NAME], {}),
        (3, [MISSING], {}),
        (3, [RANKS], {}),
    ],
    "stepwhy ops": [
        *((0, [TRACE, "--view", view], {}) for view in ("scope", "graph", "op", "code", "tree")),
        (0, [NOT_UTF8, "--json"], {}),
        (2, [TRACE, "--view", NAME], {}),
        (2, [TRACE, "--top", NAME], {}),
        (3, [MISSING], {}),
    ],
    "stepwhy whatif": [
        (0, [TRACE], {}),
        (0, [NOT_UTF8, "--json"], {}),
        (0, [TRACE, "--edit", f"kernels:{NAME}=gone"], {}),
        (8, [TRACE, "--edit", NAME], {}),
        (8, [TRACE, "--edit", f"{NAME}=gone"], {}),
        (2, [TRACE, "--timeline", f"whatif{NAME}.json"], {}),
        (3, [MISSING], {}),
        (0, [RANKS], {}),
    ],
    "stepwhy mcp": [
        (3, [MISSING], {}),
        (3, [SCRIPT], {}),
        (2, [f"--no{NAME}"], {}),
    ],
    "stepwhy sql": [
        (0, [TRACE, "select name, source, dur_ns from slices"], {}),
        (0, [TRACE, "select * from slices"], {}),
        (0, [NOT_UTF8, "select name, source from slices", "--format", "csv"], {}),
        (0, [TRACE, "select name, source from slices", "--format", "json"], {}),
        (0, [TRACE, "pivot slices on name using sum(dur_ns)"], {}),
        (0, ["long.json", "select name from slices"], {}),
        (0, [RANKS, "select * from findings"], {}),
        (0, [TRACE, "--tables"], {}),
        (9, [TRACE, f"select {NAME}"], {}),
        (9, [TRACE, "select name::int from slices"], {}),
        (0, [TRACE], {}),
        (2, [TRACE, ""], {}),
        (2, [TRACE, "--format", NAME], {}),
        (3, [MISSING, "select 1"], {}),
        (3, [f"others{NAME}", "select 1"], {}),
    ],
    "stepwhy serve": [
        (3, [MISSING], {}),
        (3, [TRACE], {}),
        (10, [FOLDER, "--host", NAME, "--port", "0"], {}),
        (2, [FOLDER, "--port", NAME], {}),
        (2, [f"--no{NAME}"], {}),
    ],
    "stepwhy placement": [
        (0, [NAME], {"placement": ""}),
        (0, [NAME, "--moved"], {"placement": ""}),
        (0, [NAME, NAME], {"placement": ""}),
        (0, [NAME, "--json"], {"placement": ""}),
        (3, [TRACE], {}),
        (2, [TRACE, TRACE, TRACE], {}),
    ],
    "stepwhy bench": [
        (0, [*QUICK, "--out", f"bench0{NAME}", SCRIPT, "10"], {}),
        (0, [*QUICK, "--out", f"bench0{BYTES}", f"{FOLDER}/{BYTES}.py", "10"], {}),
        (6, [*QUICK, "--out", f"bench9{NAME}", SCRIPT, "10", "1"], {}),
        (0, ["--out", f"bench{NAME}", SCRIPT, "10"], {"measure": ""}),
        (0, ["--out", f"bench2{NAME}", SCRIPT], {"measure": "", "bench": ""}),
        (0, ["--out", f"bench3{NAME}", "--json", SCRIPT], {"measure": "", "bench": ""}),
        (5, ["--out", FOLDER, SCRIPT], {}),
        (2, ["--out", SCRIPT, SCRIPT], {}),
        (2, ["--repeats", NAME, SCRIPT], {}),
        (2, ["--budget", NAME, SCRIPT], {}),
    ],
    "stepwhy compare": [
        (0, [f"bench0{NAME}", f"bench0{BYTES}", "--allow-busy"], {}),
        (0, [SCRIPT, f"{FOLDER}/{BYTES}.py", "--out", f"compare{NAME}"], {"trial": ""}),
        (0, [TRACE, NOT_UTF8], {"compare": ""}),
        (0, [TRACE, NOT_UTF8, "--json"], {"compare": ""}),
        *(
            (0, [TRACE, NOT_UTF8, "--format", form, "--name", NAME], {"compare": ""})
            for form in ("text", "github", "junit", "bmf")
        ),
        (2, [TRACE, TRACE, "--format", NAME], {}),
        (3, [MISSING + " x", f'"{NAME}', "--format", "github", "--name", NAME], {}),
        (5, [MISSING, TRACE], {}),
        (2, [TRACE, TRACE, "--margin", NAME], {}),
        (3, [TRACE, f'"{NAME}'], {}),
    ],
    "stepwhy try": [
        (0, ["--list"], {}),
        (8, ["--out", f"try1{NAME}", SCRIPT, "10"], {}),
        (8, ["--json", "--out", f"try2{NAME}", "--fix", "data-cache", SCRIPT, "10"], {}),
        (8, ["--out", f"try3{NAME}", "--fix", NAME, SCRIPT, "10"], {}),
        (8, ["--out", f"try4{NAME}", "--edit", NAME, SCRIPT, "10"], {}),
        (6, ["--out", f"try5{NAME}", SCRIPT, "10", "1"], {}),
        (5, ["--out", FOLDER, SCRIPT], {}),
        (2, ["--budget", NAME, SCRIPT], {}),
    ],
    "stepwhy lab": [
        (2, [f"x{NAME}"], {}),
    ],
    "stepwhy lab list": [
        (0, [], {"lab": "lab"}),
        (2, [NAME], {"lab": "lab"}),
    ],
    "stepwhy lab run": [
        (1, [NAME, "--out", f"lab1{NAME}"], {"lab": "lab"}),
        (
            1,
            [f"{FOLDER}/{NAME}", "--out", f"lab2{NAME}"],
            {"lab": "lab", "measure_pairs": "", "judge": ""},
        ),
        (2, [f"{FOLDER}/{NAME}", "--size", NAME], {"lab": "lab"}),
    ],
    "stepwhy lab grade": [
        (1, [NAME, "--out", f"lab3{NAME}"], {"lab": "lab"}),
        (1, ["--json", "--out", f"lab4{NAME}"], {"lab": "lab"}),
        (2, [NAME, "--size", NAME, "--out", f"lab5{NAME}"], {"lab": "lab"}),
    ],
    "stepwhy check": [
        (1, [SCRIPT], {"check": ""}),
        (1, ["--json", "--out", NAME, SCRIPT], {"check": ""}),
        (None, ["--", NAME, NAME], {}),
        (None, [f"{FOLDER}/{BYTES}.py"], {}),
    ],
    "stepwhy run": [
        (0, ["--out", f"run{NAME}", SCRIPT, "1"], {}),
        (0, ["--out", f"run{BYTES}", f"{FOLDER}/{BYTES}.py", "1"], {}),
        (5, ["--out", f"run2{NAME}", "--", NAME], {}),
        (0, ["--out", f"run{NAME}", SCRIPT, "1"], {}),
        (0, ["--out", SCRIPT, "--", "true"], {}),
        (0, ["--out", f"run3{NAME}", "--", MISSING], {"launch": MISSING}),
        (0, ["--out", FOLDER, SCRIPT], {"launch": FOLDER}),
        (5, ["--out", f"run4{NAME}", MISSING], {}),
    ],
    "stepwhy top": [
        (0, [f"run{NAME}", "--once"], {}),
        (3, [FOLDER, "--once"], {}),
        (3, [MISSING], {}),
        (2, [FOLDER, "--sort", NAME], {}),
    ],
    # The process that makes the report of 'stepwhy run'.
    "stepwhy aside": [
        (0, [FOLDER], {}),
        (0, [f"run{NAME}"], {}),
        (0, [MISSING], {"error": "unknown-format"}),
        (0, [MISSING], {"bug": ""}),
        (0, [f"run{NAME}"], {"sample": "watched"}),
    ],
}
RUNS = [
    {
        "id": f"{command} #{number}",
        "code": code,
        "args": [*command.split()[1:], *args],
        "plants": plants,
    }
    for command, cases in CASES.items()
    for number, (code, args, plants) in enumerate(cases)
]


def commands(command=cli, name="stepwhy"):
    """Every command that click knows, the groups included."""
    yield name
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            yield from commands(command.get_command(context, word), f"{name} {word}")


def test_every_command_has_cases():
    assert sorted(CASES) == sorted([*commands(), "stepwhy aside"])


def test_every_error_has_a_case():
    planted = {plants.get("error") for _, _, plants in CASES["stepwhy explain"]}
    assert {leaf.slug for leaf in leaves()} <= planted


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Returns what each case printed on a terminal, and its exit code."""
    seen = {}

    def on(name):
        if name not in seen:
            folder = tmp_path_factory.mktemp("session")
            write_inputs(folder)
            seen[name] = dict(split(in_terminal(folder, TERMINALS[name])))
        return seen[name]

    return on


def in_terminal(folder, terminal):
    """The bytes that the session prints on a pseudo-terminal, which adds none of its own."""
    cases = folder / "cases"
    cases.write_text(json.dumps(RUNS))
    controller, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, terminal.columns, 0, 0))
    mode = termios.tcgetattr(side)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(side, termios.TCSANOW, mode)
    kept = ("PATH", "HOME", "STEPWHY_CACHE", "TMPDIR")
    environment = {k: os.environ[k] for k in kept if k in os.environ} | terminal.environment
    environment |= {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "STEPWHY_NATIVE": "0", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "tests.terminal.session", str(cases)]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
    with subprocess.Popen(command, cwd=folder, env=environment, **streams) as session:
        os.close(side)
        output = read_all(controller)
    assert session.returncode == 0, output[-2000:]
    return output


def read_all(controller):
    chunks = []
    while True:
        try:
            chunk = os.read(controller, 1 << 16)
        except OSError:  # its other side is closed
            chunk = b""
        if not chunk:
            os.close(controller)
            return b"".join(chunks)
        chunks.append(chunk)


def split(output):
    """Id, and (exit code, bytes), of each case."""
    for match in re.finditer(rb"@@ ([^\n]*)\n(.*?)\n@= ([^\n]*)\n", output, re.DOTALL):
        yield match[1].decode(), (match[3].decode(), match[2])


# Colours; clearing a line, showing and hiding the cursor, moving it up, for a progress bar.
OF_RICH = re.compile(r"\x1b\[(\d+(;\d+)*)?m|\r?\x1b\[(2K|\?25[lh]|1A)")
TITLE = re.compile(r"\x1b\[2[23];0t|\x1b\]0;stepwhy: step [^\x00-\x1f]*\x07")
HARMFUL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def harm(raw):
    """What reached the terminal beside text, line breaks and the sequences of rich."""
    text = raw.decode()
    text = TITLE.sub("", text)
    if "\x1b[7;5;31m" in text:
        yield "planted colour"
    text = OF_RICH.sub("", text)
    yield from (
        f"{found[0]!r} in {text[max(found.start() - 60, 0) :][:120]!r}"
        for found in HARMFUL.finditer(text)
    )
    yield from (
        f"forged line {line[:80]!r}" for line in text.splitlines() if line.startswith("FORGED")
    )
    if "😄" in text:
        yield "emoji code"


@pytest.mark.parametrize("terminal", TERMINALS)
def test_nothing_planted_reaches_the_terminal(printed, terminal):
    for case in RUNS:
        code, raw = printed(terminal)[case["id"]]
        assert list(harm(raw)) == [], case["id"]
        if "--json" not in case["args"]:
            # Each frame of a progress bar erases the line before it.
            lines = [OF_RICH.sub("", line) for line in re.split("\n|\x1b\\[2K", raw.decode())]
            assert max(map(len, lines)) <= LONGEST_LINE, case["id"]
        if case["code"] is not None:
            assert code == str(case["code"]), case["id"]


TELLING = [r"\x1b]0;P\x07", r"\x1b[2J", r"\x9d0;P\x9c", r"\u202eP\u2066", "[red][link=P:P]:smile:"]


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in RUNS
        if (case["code"] in (3, 4, 5, 6) or "sample" in case["plants"])
        and not case["args"][-1].startswith("https:")  # of which little is shown
    ],
    ids=lambda case: case["id"],
)
def test_the_reader_recognises_what_was_planted(printed, case):
    _, raw = printed("no-color-200")[case["id"]]
    shown = "".join(raw.decode().split())
    assert [part for part in TELLING if part.lower() not in shown.lower()] == []


@pytest.mark.parametrize("terminal", TERMINALS)
@pytest.mark.parametrize("case", [c for c in RUNS if "--json" in c["args"]], ids=lambda c: c["id"])
def test_json_holds_the_names_as_they_are(printed, terminal, case):
    _, raw = printed(terminal)[case["id"]]
    document = raw[raw.index(b"{") :]
    assert json.loads(document) == msgspec.json.decode(document)
    texts = list(strings(json.loads(document)))
    assert any(NAME in text for text in texts)
    assert not any("\\x1b" in text for text in texts)


def strings(value):
    """All texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from strings(item)
