"""Pages of small traces in headless Chromium, without a network."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from playwright.sync_api import sync_playwright

from stepwhy.engine.explain import explain_opened
from stepwhy.engine.rank_sets import Opened
from stepwhy.engine.timeline import TimelineParts
from stepwhy.show import html
from stepwhy.trace.notation import parse

if TYPE_CHECKING:
    from pathlib import Path

# Nine steps that wait for their batch; the letters are explained in `trace/notation.py`.
STEPS = 9
INPUT_BOUND = f"""
unit: 1 ms
framework: pytorch
main   step   |{"[------------------]" * STEPS}|
main   input  |{"dddddddddd          " * STEPS}|  d=enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
main   op     |{"          [aten::mm]" * STEPS}|
main   launch |{"            l       " * STEPS}|  l=cudaLaunchKernel
GPU:0  kernel |{"             [gem]  " * STEPS}|
arrows: l -> gem
"""  # noqa: E501 - the drawing is easier to read in one line
# A queue whose sampler paused, and memory that doubles.
LEVELS = """
counters: name | time_ns | value
resident_bytes | 0 ms | 1 GiB
resident_bytes | 10 ms | 1 GiB
resident_bytes | 90 ms | 2 GiB
resident_bytes | 100 ms | 2 GiB
resident_bytes | 170 ms | 2 GiB

levels: queue | kind | time_ns | value | capacity | reserve
""" + "".join(
    f"batches | tf1-queue | {time} ms | {value} | 8 | 0\n"
    for time, value in [*((t, t % 9) for t in range(40)), *((t, 8) for t in range(160, 180))]
)


def further_kernels(count):
    """Rows with one more kernel each, of different names, on another stream."""
    rows = (f"GPU:0/8 kernel |{' ' * (2 * i)}a|  a=kernel_{i}\n" for i in range(count))
    return "".join(rows)


def without_launches(drawing):
    lines = drawing.splitlines(keepends=True)
    return "".join(line for line in lines if "launch" not in line and "arrows" not in line)


def renamed(trace, old, new):
    """The trace with another name."""
    return replace(trace, strings=[new if text == old else text for text in trace.strings])


_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Painted by the processor, as on a machine without a graphics card.
_OPTIONS = ("--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader")  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    assert path, "Chromium is missing; on Debian and Ubuntu: apt install chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=_OPTIONS)
        yield found
        found.close()


@pytest.fixture
def page_of(tmp_path):
    """Write the page of a trace, and return its file.

    `name` replaces the name of the kernel in the trace, and `change` changes the text of the page.
    With `levels`, there is a queue and a counter; a text is the name of the queue. `kernels` is the
    number of further kernels, and `further` the notation of further tables. Without `launches`, the
    steps cannot be replayed.
    """

    def write(
        name="gem", change=lambda text: text, *, levels=False, kernels=0, further="", launches=True
    ) -> Path:
        tables = (LEVELS if levels else "") + (f"\n{further}" if further else "")
        drawing = INPUT_BOUND if launches else without_launches(INPUT_BOUND)
        trace = parse(drawing + further_kernels(kernels) + tables)
        if isinstance(levels, str):
            name, trace = "gem", renamed(trace, "batches", levels)
        trace = renamed(trace, "gem", name)
        parts = TimelineParts()
        opened = Opened("trace.json", "notation", trace)
        result = explain_opened([opened], [], seen=parts.seen)
        file = tmp_path / "report.html"
        file.write_text(change(html.render(result, parts.timeline())), encoding="utf-8")
        return file

    return write


# The tests of tables and charts begin where a reader has opened them.
_UNFOLD = "for (const part of document.querySelectorAll('.fold > details')) part.open = true"


@pytest.fixture
def show(browser):
    """Open a page without a network; at the end, nothing was requested and no error shown."""
    opened, problems = [], []

    def open_page(file: Path, ready=True, unfold=True, **options):
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        opened.append(context)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: None if one.url == file.as_uri()
                or one.url.startswith("data:") else problems.append(one.url))  # fmt: skip
        page.goto(file.as_uri())
        if unfold:
            page.evaluate(_UNFOLD)
        if ready:
            page.wait_for_selector("#timeline[data-ready]")
            page.locator("#timeline").evaluate("section => section.scrollIntoView()")
        return page

    yield open_page
    for context in opened:
        context.close()
    assert problems == []
