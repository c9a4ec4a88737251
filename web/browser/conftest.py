"""Pages of small traces in headless Chromium, without a network."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from playwright.sync_api import sync_playwright

from stepwhy.engine.explain import Opened, explain_opened
from stepwhy.export.timeline import part_of, timeline_of
from stepwhy.report import html
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
    """

    def write(name: str = "gem", change=lambda text: text) -> Path:
        trace = parse(INPUT_BOUND)
        trace = replace(trace, strings=[name if s == "gem" else s for s in trace.strings])
        parts = []
        opened = Opened("trace.json", "notation", trace)
        result = explain_opened([opened], [], seen=lambda _, facts: parts.append(part_of(facts)))
        timeline = timeline_of([("", part) for part in parts])
        file = tmp_path / "report.html"
        file.write_text(change(html.render(result, timeline)), encoding="utf-8")
        return file

    return write


@pytest.fixture
def show(browser):
    """Open a page without a network; at the end, nothing was requested and no error shown."""
    opened, problems = [], []

    def open_page(file: Path, ready=True, **options):
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        opened.append(context)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: None if one.url == file.as_uri()
                or one.url.startswith("data:") else problems.append(one.url))  # fmt: skip
        page.goto(file.as_uri())
        if ready:
            page.wait_for_selector("#timeline[data-ready]")
            page.locator("#timeline").evaluate("section => section.scrollIntoView()")
        return page

    yield open_page
    for context in opened:
        context.close()
    assert problems == []
