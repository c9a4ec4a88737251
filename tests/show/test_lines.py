"""The breakdown by line of the program, in all reports."""

from __future__ import annotations

import pytest
from msgspec import structs
from rich.console import Console

from stepwhy.result import LineModule, LineOperation, LineTime
from stepwhy.show import html, lines, markdown, terminal
from stepwhy.show.html.lines import line_table
from stepwhy.show.terminal.lines import line_view
from stepwhy.show.without_findings import nothing_found, with_summary


def printed(result, *, show_all=False):
    console = Console(width=100, record=True, color_system=None)
    with console.capture() as capture:
        terminal.render(result, console=console, show_all=show_all)
    return capture.get()


@pytest.mark.parametrize("name", ["by_line", "one_line"])
def test_the_samples_are_closed(sample, name):
    result = sample(name)
    assert sum(row.time_ns for row in result.lines.lines) == result.breakdown.wall_ns
    for row in result.lines.lines:
        assert sum(part.time_ns for part in lines.parts(row)) == row.time_ns


def test_three_lines_and_what_lies_between_them(sample):
    names = [lines.line_name(row) for row in lines.chosen(sample("by_line").lines, 3)]
    assert names == [
        "data/augment.py(88): augment",
        "resnet.py(140): ResNet.forward",
        "(communication between devices, which no single line causes)",
        "train.py(60): main",
    ]


def test_a_line_says_what_it_does(sample):
    wait, layer, exchange, optimizer, unknown, *_, last = sample("by_line").lines.lines
    assert lines.what_it_does(wait) == "input wait"
    assert lines.what_it_does(layer) == (
        "backward 56 %, forward 36 % · "
        "aten::convolution_backward 44 %, aten::cudnn_convolution 39 %"
    )
    assert lines.what_it_does(exchange) == ""
    assert lines.what_it_does(optimizer) == "optimizer"
    assert lines.what_it_does(unknown) == "dispatch 50 %, unexplained 50 %"
    assert lines.what_it_does(last) == "python 82 %, storage 18 %"


def test_time_of_unknown_phases_is_not_lost():
    row = LineTime("a.py(1): f", "line", 10, {"compute": 10}, {"forward": 4})
    assert [(p.name, p.time_ns) for p in lines.parts(row)] == [("compute", 6), ("forward", 4)]


def test_terminal_shows_three_lines_and_the_rest(sample):
    text = printed(sample("by_line"))
    assert "Where in your program the step goes" in text
    assert "46.1 ms   73 %  data/augment.py(88): augment" in text
    assert "train.py(30): main" not in text
    assert "5 other lines and time without a known line take 8.0 %." in " ".join(text.split())
    assert "a backward pass counts for the line that starts it" in " ".join(text.split())
    assert text.index("Where in your") < text.index("What to change")


def test_all_shows_more_lines(sample):
    text = printed(sample("by_line"), show_all=True)
    assert "train.py(33): main" in text
    assert "other lines" not in text


def test_a_line_that_is_most_of_the_step_is_divided(sample):
    text = printed(sample("one_line"))
    assert "30.0 ms   48 %    aten::convolution_backward" in text
    assert "18.0 ms   29 %    aten::cudnn_convolution" in text


def test_the_hottest_line_is_not_said_twice(sample):
    for report in (printed, html.render, markdown.render):
        assert "your code is most often" not in report(sample("by_line"))


def test_no_section_without_lines(sample):
    for report in (printed, html.render, markdown.render):
        assert "Where in your program" not in report(sample("healthy"))


def test_the_view_is_closed(sample):
    breakdown = sample("by_line").lines
    console = Console(width=100, color_system=None)

    def shown(most):
        with console.capture() as capture:
            for part in line_view(breakdown, 3, most):
                console.print(part)
        return capture.get()

    assert "10 of 10, longest first, mean of 3 steps" in shown(99)
    assert "(line not known)" in shown(99)
    assert "63.4 ms  100 %  (all)" in shown(99)
    assert "17.3 ms   27 %  (other rows)" in shown(1)


def test_markdown_shows_lines_as_code(sample):
    text = markdown.render(sample("by_line"))
    assert "| `resnet.py(140): ResNet.forward` | 9.0 ms | 14 % |" in text
    assert "5 other lines and time without a known line take 8.0 %." in text


def test_page_draws_the_phases_of_each_line(sample):
    table = line_table(sample("by_line"))
    layer = table.rows[1]
    assert [(part.name, part.style) for part in layer.bar] == [
        ("backward", "p-backward"),
        ("forward", "p-forward"),
        ("dispatch", "c-dispatch"),
    ]
    assert sum(part.width for part in table.rows[0].bar) == 100
    assert len(table.more) == 6
    page = html.render(sample("by_line"))
    assert 'class="p-backward"' in page
    assert "<code>resnet.py(140): ResNet.forward</code>" in page


def with_modules(result):
    """The result with its first line divided by module."""
    first, *rest = result.lines.lines
    mm = LineOperation("aten::mm", "forward", 4, first.time_ns // 4)
    rest_ns = first.time_ns - first.time_ns // 2
    modules = (
        LineModule("Encoder/Attention", first.time_ns // 2, (mm,)),
        LineModule("", rest_ns, (), {"input_wait": rest_ns // 4, "python": rest_ns // 2}),
    )
    first = structs.replace(first, modules=modules)
    return structs.replace(result, lines=structs.replace(result.lines, lines=(first, *rest)))


def test_a_line_with_most_of_the_step_is_shown_by_module(sample):
    result = with_modules(sample("one_line"))
    for text in (printed(result), markdown.render(result), html.render(result)):
        text = text.replace("\N{NO-BREAK SPACE}", " ")  # noqa: PLW2901
        assert "Encoder/Attention · aten::mm 50 %" in text
        assert "(in no module) · python 50 %, input wait 25 %" in " ".join(text.split())
    (row, *_) = line_table(result).rows
    assert [name for name, *_ in row.operations] == [
        "Encoder/Attention · aten::mm 50 %",
        "(in no module) · python 50 %, input wait 25 %",
    ]


def test_good_news_names_the_lines_of_the_step(sample):
    text = nothing_found(sample("one_line"))
    assert "Its longest lines are train.py(88): main (92 %) and train.py(95): main (0.6 %)." in text


def test_lines_of_a_small_part_are_no_answer(sample):
    known = sample("one_line")
    unknown, *rest = (structs.replace(row, kind="uncredited", line="") for row in known.lines.lines)
    breakdown = structs.replace(known.lines, lines=(unknown, *rest))
    text = nothing_found(structs.replace(known, lines=breakdown))
    why = "most operations were recorded without the line that runs them."
    assert f"Which lines of the program cause it is not known: {why}" in text
    breakdown = structs.replace(known.lines, lines=(unknown, *known.lines.lines[1:]))
    text = nothing_found(structs.replace(known, lines=breakdown))
    assert f"Which lines of the program cause 99 % of it is not known: {why}" in text


def test_it_says_why_lines_are_not_known(sample):
    known = sample("one_line")
    silent = LineTime("", "uncredited", 90, {"unexplained": 90}, {})
    idle = structs.replace(known.lines, wall_ns=100, lines=(silent,))
    text = nothing_found(structs.replace(known, lines=idle))
    assert "is not known: nothing shows what the program did meanwhile." in text
    sampled = structs.replace(silent, categories={"compute": 90})
    lines = structs.replace(idle, lines=(sampled,), source="samples")
    text = nothing_found(structs.replace(known, lines=lines))
    assert "there are only stack samples, and most show no line of the program." in text
    text = nothing_found(structs.replace(known, lines=None))
    assert "the trace names none; 'stepwhy run' does." in text


def test_the_result_has_the_summary_only_if_nothing_was_found(sample):
    healthy = with_summary(sample("one_line"))
    assert healthy.nothing_found == nothing_found(healthy)
    assert with_summary(sample("by_line")).nothing_found == ""


def test_a_step_that_waits_starts_at_its_longest_line(sample):
    result = structs.replace(sample("healthy"), lines=sample("by_line").lines)
    verdict = structs.replace(result.verdict, bound_by="input")
    assert nothing_found(structs.replace(result, verdict=verdict)).endswith(
        "start at data/augment.py(88): augment (73 %). Then look at resnet.py(140): ResNet.forward "
        "(14 %) and train.py(60): main (1.9 %)."
    )
