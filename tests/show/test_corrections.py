"""How the breakdown follows from the record, in every report that shows it."""

import pytest
from msgspec import structs
from rich.console import Console

from stepwhy.result import Correction
from stepwhy.show import html, markdown, picture, terminal

MS = 1_000_000
RECORDED = "The recorded step takes 80.0 ms: 60.0 ms compute, 20.0 ms unexplained."
SENTENCE = "2.00 ms moved from unexplained to python: they were."


@pytest.fixture
def result(sample):
    found = sample("healthy")
    breakdown = structs.replace(
        found.breakdown,
        recorded={"compute": 60 * MS, "unexplained": 20 * MS},
        corrections=(Correction("own-lines", {"python": 2 * MS}, SENTENCE),),
    )
    return structs.replace(found, breakdown=breakdown)


def in_terminal(result, *, show_all):
    console = Console(width=200, record=True, file=None)
    with console.capture() as capture:
        terminal.render(result, show_all=show_all, console=console)
    return capture.get()


@pytest.mark.parametrize("show_all", [False, True])
def test_reports_show_it_on_demand(result, show_all):
    printed = in_terminal(result, show_all=show_all)
    written = markdown.render(result, show_all=show_all)
    for sentence in (picture.CORRECTIONS_TITLE, RECORDED, SENTENCE):
        assert (sentence in printed) == show_all
        assert (sentence in written) == show_all


def test_the_page_folds_it(result):
    page = html.render(result).replace("\N{NO-BREAK SPACE}", " ")
    assert f"<summary>{picture.CORRECTIONS_TITLE}</summary>" in page
    assert f"<li>{RECORDED}</li><li>{SENTENCE}</li>" in page


def test_a_breakdown_that_was_not_corrected_needs_no_words(sample):
    result = sample("healthy")
    assert picture.corrections(result.breakdown) == []
    assert picture.CORRECTIONS_TITLE not in in_terminal(result, show_all=True)
    assert picture.CORRECTIONS_TITLE not in markdown.render(result, show_all=True)
    assert picture.CORRECTIONS_TITLE not in html.render(result)
