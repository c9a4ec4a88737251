"""Source lines in which threads spend their time, in both reports."""

from __future__ import annotations

import pytest
from msgspec import structs
from rich.console import Console

from stepwhy.result import HostLine, HostLoad
from stepwhy.show import html, terminal
from stepwhy.show.lines import sampled_lines

LINES = (
    HostLine("data/augment.py:88", 0.43, "driver"),
    HostLine("train.py(41): main", 0.05, "driver"),
    HostLine("data.py(31): decode", 0.83, "worker"),
    HostLine("<b>.py(9): produce", 0.6, "thread"),
)


@pytest.fixture
def sampled(sample):
    """A run whose threads were sampled."""
    host = HostLoad(None, None, None, None, lines=LINES)
    return structs.replace(sample("input_bound"), host=host)


def printed(result):
    console = Console(width=100, record=True, color_system=None)
    with console.capture() as capture:
        terminal.render(result, console=console)
    return " ".join(capture.get().split())


def test_lines_by_role(sampled):
    assert sampled_lines(sampled) == [
        (
            "The driving thread spends",
            [("43 %", "data/augment.py:88"), ("5.0 %", "train.py(41): main")],
        ),
        ("Workers spend", [("83 %", "data.py(31): decode")]),
        ("Other threads spend", [("60 %", "<b>.py(9): produce")]),
    ]


def test_at_most_three_lines_per_role(sampled):
    lines = tuple(HostLine(f"a.py({n}): f", 0.1, "worker") for n in range(5))
    host = structs.replace(sampled.host, lines=lines)
    ((_, places),) = sampled_lines(structs.replace(sampled, host=host))
    assert len(places) == 3


def test_terminal_shows_lines(sampled):
    text = printed(sampled)
    assert "Workers spend 83 % in data.py(31): decode." in text
    assert "The driving thread spends 43 % in data/augment.py:88, 5.0 % in train.py" in text


def test_page_shows_escaped_lines(sampled):
    page = html.render(sampled).replace("\N{NO-BREAK SPACE}", " ")
    assert "Workers spend 83 % in <code>data.py(31): decode</code>." in page
    assert "60 % in <code>&lt;b&gt;.py(9): produce</code>" in page


def test_line_is_not_shown_twice(sampled):
    line = sampled.host.lines[0].line
    hottest = structs.replace(sampled.breakdown, hottest_line=line)
    twice = structs.replace(sampled, breakdown=hottest)
    assert "your code is most often" not in printed(twice)
    assert "your code is most often" not in html.render(twice)
    other = structs.replace(sampled.breakdown, hottest_line="io.py(3): read")
    assert "most often at io.py(3): read" in printed(structs.replace(sampled, breakdown=other))


def test_no_sentence_without_samples(sample):
    input_bound = sample("input_bound")
    assert sampled_lines(input_bound) == []
    assert "Workers spend" not in printed(input_bound)
