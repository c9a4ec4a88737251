"""Measurements, comparisons and grades in terminals of several widths: no figure is cut."""

import io
import re
from datetime import date

import pytest
from rich.cells import cell_len
from tests.measure.results import MS, op, result, steady

from stepwhy.measure import compare, grade_pair, graded, judge_pair, sample, summarise
from stepwhy.show.console import Console
from stepwhy.show.terminal.fitting import shortened
from stepwhy.show.terminal.grade import render_grade
from stepwhy.show.terminal.lab import render_lab
from stepwhy.show.terminal.measurement import render_bench, render_comparison

WIDTHS = [60, 80, 100, 140]
LONG = "volta_scudnn_128x128_stridedB_splitK_interior_medium_nn_v1_with_a_name_that_does_not_end"
LABELS = ("experiments/2026/baseline_resnet50.py --batch-size 256", "train.py --workers 8 --fused")
FIGURE = re.compile(r"[+-]?\d[\d,.]* (?:ns|µs|ms|s|%)(?![\w])")


def runs(steps_ms, names, **options):
    ops = [op(name, int(ms * MS)) for name, ms in names.items()]
    return [
        sample(result(steady(int(ms * MS)), ops=ops, **options), f"r{n}")
        for n, ms in enumerate(steps_ms)
    ]


def comparison():
    a = runs([123.4, 125.1, 124.2], {LONG: 46.6, "aten::copy_": 1.23, "aten::only_in_a": 4.56},
             categories={"compute": 99 * MS, "input_wait": 24 * MS})  # fmt: skip
    b = runs([101.2, 103.3, 102.4], {LONG: 23.4, "aten::copy_": 1.99}, background=1.0,
             categories={"compute": 98 * MS, "input_wait": 4 * MS})  # fmt: skip
    return compare(LABELS, a, b, margin=0.03)


def printed(render, what, width, **options):
    file = io.TextIOWrapper(io.BytesIO(), encoding=options.pop("encoding", "utf-8"))
    render(what, Console(file=file, width=width, **options))
    file.flush()
    return file.buffer.getvalue().decode(file.encoding)


def explained(**options):
    categories = {"compute": 9 * MS, "unexplained": MS}
    return result(steady(10 * MS), categories=categories, **options)


def everything():
    lab = judge_pair("torch/a_pair_with_a_rather_long_name", "A title", "graph-growth",
                     runs([20.1, 20.2], {}), runs([15.3, 15.4], {}),
                     requested=2, day=date(2026, 1, 2))  # fmt: skip
    pairs = [
        grade_pair(f"torch/pair_with_a_long_name_{n}", "unfavourable-layout-of-images",
                   [explained()], [explained(background=2.0)], day=date(2026, 1, 2))
        for n in range(3)
    ]  # fmt: skip
    bench = summarise(LABELS[0], runs([10.1, 10.3, 10.2, 11.1], {}), 4, batch_size=32)
    return [
        (render_comparison, comparison()),
        (render_bench, bench),
        (render_lab, lab),
        (render_grade, graded(pairs)),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "options", [{}, {"no_color": True}, {"force_terminal": True, "color_system": None}]
)
def test_every_figure_is_whole(number, width, options):
    render, what = everything()[number]
    narrow = printed(render, what, width, **options)
    assert max(cell_len(line) for line in narrow.splitlines()) <= min(width, 100)
    assert "…" not in narrow
    one_line = " ".join(narrow.split())
    wide = " ".join(printed(render, what, 100).split())
    assert sorted(FIGURE.findall(one_line)) == sorted(FIGURE.findall(wide))


def test_ascii_output_keeps_every_figure():
    text = printed(render_comparison, comparison(), 80, encoding="ascii")
    assert "46.6 ms   23.4 ms   -23.2 ms" in text


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [
        ("conv", 4, "conv"),
        ("convolution", 9, "con...ion"),
        ("convolution", 10, "conv...ion"),
        ("卷积卷积卷积", 9, "卷积...积"),
        ("convolution", 2, ".."),
    ],
)
def test_names_lose_their_middle(name, width, short):
    assert shortened(name, width) == short
    assert cell_len(shortened(name, width)) <= width
