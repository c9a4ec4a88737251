"""Draw the pictures of the guides: run the programs of the lab, and show the reports.

    python docs/pictures.py [NAME ...]

`NAME` is a file of `docs/images` that is in `REPORTS` or `SECTIONS`, or `report.png`; without one,
all are drawn. The lab's programs need TensorFlow, and pictures of pages need Chromium. A run takes
some seconds, so the figures on the pictures vary; compare them with the text around them.

`report.png` and the report in the READMEs are those of one recorded trace, in the folder that
STEPWHY_TRACES names; `docs/generate.py` puts the text into both READMEs.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stepwhy.engine import explain
from stepwhy.show.html import page
from stepwhy.show.terminal import render

_ROOT = Path(__file__).resolve().parents[1]
_IMAGES = _ROOT / "docs" / "images"
_LAB = _ROOT / "lab" / "tf1"

REPORTS = {
    "batch-norm.svg": "batch_norm",
    "distance-map.svg": "distance_map",
    "feeds.svg": "feeds",
    "growing-graph.svg": "growing_graph",
    "inception.svg": "inception",
    "large-fetch.svg": "large_fetch",
    "layout.svg": "layout",
    "queue.svg": "queue",
    "towers.svg": "towers",
    "towers-gradients.svg": "towers_gradients",
}
"""Pictures of the beginning of a report in the terminal, and the pair whose faulty program ran."""

SECTIONS = {
    "memory.png": ("batch_norm", "Memory", (900, 950)),
    "queue-starved.png": ("queue", "Queue shuffle_batch", (768, 216)),
}
"""Pictures of one part of a page: the pair, the beginning of its heading, width and height."""

READMES = "report.png"
"""The picture in the READMEs."""
TRACE = "kineto/r50_v100_nw0_2020_list.json.gz"
"""Its trace: ResNet-50 on a V100, of the samples of torch_tb_profiler."""

_WIDTH = 92
_README_WIDTH = 100
_SHARE = re.compile(r"  \S [a-z ]+ .*? (<?[\d.]+) %  ")
_LAST_CHUNK = b"\0\0\0\0IEND\xaeB`\x82"
_LEAST = 5  # percent of the step: smaller categories are left out of the READMEs
# The picture ends before the second finding, or before the description of the run itself.
_REST = re.compile(r"^(\x1b\[[\d;]*m)*(2 |Devices|Steps )", re.MULTILINE)
# The font that rich links to is on another server; any monospaced one will do.
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
_HEAD = re.compile(r"<head>.*?</head>", re.DOTALL)


def observe(pair: str, run_dir: Path) -> str:
    """Run the faulty program of a pair under `stepwhy run`, in its small size.

    Args:
        pair: Name of a folder of `lab/tf1`.
        run_dir: The run directory to make.

    Returns:
        The command line as a reader would type it.

    Raises:
        subprocess.CalledProcessError: The program failed.
    """
    about = tomllib.loads((_LAB / pair / "pair.toml").read_text(encoding="utf-8"))
    script, *options = about.get("faulty", ["faulty.py"])
    arguments = [*options, *about["sizes"]["small"]]
    command = [sys.executable, "-m", "stepwhy", "run", "--out", str(run_dir), "--"]
    program = [sys.executable, os.path.normpath(Path(pair, script)), *arguments]
    subprocess.run([*command, *program], cwd=_LAB, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return " ".join(["stepwhy run", Path(script).name, *options])


def report_picture(run_dir: Path, title: str) -> str:
    """The beginning of a report as it looks in a terminal, as an SVG.

    Args:
        run_dir: The run directory.
        title: Title of the terminal.
    """
    text = io.StringIO()
    terminal = Console(file=text, width=_WIDTH, force_terminal=True, color_system="truecolor")
    render(explain([str(run_dir)]), console=terminal)
    beginning = _REST.split(text.getvalue(), maxsplit=1)[0].strip("\n")
    console = Console(file=io.StringIO(), width=_WIDTH, record=True)
    console.print(Text.from_ansi(beginning))
    svg = console.export_svg(title=title, unique_id="report")
    return _FONT_FACE.sub("\n", svg)


def section_page(run_dir: Path, heading: str) -> str:
    """A page that shows nothing but one part of a run's report.

    Args:
        run_dir: The run directory.
        heading: Beginning of the part's heading.

    Raises:
        LookupError: The report has no such part.
    """
    html = page(explain([str(run_dir)]))
    level = rf"<h(\d)[^>]*>{re.escape(heading)}"
    part = re.compile(rf"{level}.*?(?=<h\1\b|</section>)", re.DOTALL)
    head, found = _HEAD.search(html), part.search(html)
    if head is None or found is None:
        raise LookupError(f"the report has no part {heading!r}")
    part_alone = f'<section style="margin: -48px 0 0">{found[0]}</section>'
    body = f'<body><main style="padding: 0 8px">{part_alone}</main></body>'
    return f"<!doctype html><html>{head[0]}{body}</html>"


def shortened(text: str) -> str:
    """The beginning of a report, for the READMEs: the first screen, and the largest categories.

    Args:
        text: The report, as in a terminal without colours.
    """
    first, _, rest = text.strip("\n").partition("\nWhere the step goes\n")
    first = first.rstrip("\n").rpartition("\n\n")[0]  # the framework and the device come last
    lines = rest.splitlines()
    bars = [line for line in lines if (share := _SHARE.match(line)) and _is_large(share[1])]
    start = next(i for i, line in enumerate(lines) if line.startswith("1  "))
    kept = [*first.splitlines(), "", *bars, "  ...", *lines[start : start + 2]]
    return "\n".join(line.rstrip() for line in kept) + "\n"


def _is_large(percent: str) -> bool:
    return not percent.startswith("<") and float(percent) >= _LEAST


def readme_report(trace: Path) -> tuple[str, str]:
    """The shortened report of a trace, and its page.

    Args:
        trace: The trace.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copyfile(trace, "trace.json.gz")  # the name in the READMEs
        result = explain(["trace.json.gz"])
    text = io.StringIO()
    render(result, console=Console(file=text, width=_README_WIDTH, color_system=None))
    return shortened(text.getvalue()), page(result)


def describe(picture: Path, text: str) -> None:
    """Store a text in a PNG, as its description.

    Args:
        picture: The PNG.
        text: The text; what is not Latin-1 is replaced.

    Source: PNG, 11.3.3.2 `tEXt`.
    """
    data = picture.read_bytes()
    body = b"tEXtDescription\0" + text.encode("latin-1", "replace")
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    picture.write_bytes(data[: -len(_LAST_CHUNK)] + chunk + _LAST_CHUNK)


def draw_readme() -> None:
    """Write the report of the READMEs, and its picture."""
    text, html = readme_report(Path(os.environ["STEPWHY_TRACES"], TRACE))
    (_ROOT / "docs/images/report.txt").write_text(text, encoding="utf-8")
    screenshot(html, _IMAGES / READMES, (1100, 1000))
    describe(_IMAGES / READMES, text)


def screenshot(html: str, picture: Path, size: tuple[int, int]) -> None:
    """Show a page in Chromium, and keep it as a picture.

    Args:
        html: The page.
        picture: The PNG to write.
        size: Width and height in pixels.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(html, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--screenshot={picture}"]
        options += [f"--window-size={size[0]},{size[1]}"]
        subprocess.run(["chromium", *options, source.as_uri()], check=True, capture_output=True)  # noqa: S603, S607


def main(names: list[str]) -> None:
    """Draw pictures.

    Args:
        names: Their file names; all if empty.
    """
    for name in names or [*REPORTS, *SECTIONS, READMES]:
        if name == READMES:
            draw_readme()
            continue
        with tempfile.TemporaryDirectory() as folder:
            run_dir = Path(folder, "run")
            if name in REPORTS:
                title = observe(REPORTS[name], run_dir)
                svg = report_picture(run_dir, title)
                (_IMAGES / name).write_text(svg, encoding="utf-8")
            else:
                pair, heading, size = SECTIONS[name]
                observe(pair, run_dir)
                screenshot(section_page(run_dir, heading), _IMAGES / name, size)


if __name__ == "__main__":
    main(sys.argv[1:])
