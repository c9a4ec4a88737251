"""The table of ranks in the terminal, in Markdown and on the page."""

import io

import pytest
from msgspec import structs

from stepwhy.result import RankUse
from stepwhy.show import html, markdown
from stepwhy.show.console import Console
from stepwhy.show.html.ranks import rank_view
from stepwhy.show.ranks import others_sentence, ranks_section, those_that_matter
from stepwhy.show.terminal.blocks import View, rendered
from stepwhy.show.terminal.finish import TOGETHER

MS = 1_000_000


def printed(ranks, width=100, *, show_all=False):
    class Shown:
        pass

    Shown.ranks = ranks
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    view = View(width, has_colour=False, show_all=show_all)
    for part in rendered(ranks_section(Shown, show_all=show_all), view):
        console.print(part, width=width)
    return stream.getvalue().replace(TOGETHER, " ")


def row(number, late_ns=0, **fields):
    return RankUse(
        number, 10 * MS, 8 * MS, wait_ns=MS, transfer_ns=MS, late_ns=late_ns, last=3, **fields
    )


LATE = row(11, 4 * MS, longer="compute", operation="aten::mm", phase="backward", line="a.py(3): f")


def test_a_row_says_how_long_a_rank_works_and_waits():
    text = printed([row(0), LATE])
    assert "Ranks (2 of 2, per step)" in text
    assert "  rank     step    works    waits  moves data  late by  last in  takes longer" in text
    assert "   11  10.0 ms  8.00 ms  1.00 ms     1.00 ms  4.00 ms        3  " in text
    assert "compute · aten::mm backward · a.py(3): f" in " ".join(text.split())


def test_of_many_ranks_those_that_matter_are_listed():
    ranks = [row(number) for number in range(300) if number != 11]
    text = printed([*ranks[:11], LATE, *ranks[11:]])
    assert "8 of 300" in text
    assert " 11 " in text
    assert "The other 292 ranks work 8.00 ms and wait 1.00 ms." in " ".join(text.split())
    assert printed(ranks, show_all=True).count("10.0 ms") == 299


def test_what_is_unknown_is_no_zero():
    text = printed([RankUse(0, 10 * MS, 8 * MS), RankUse(1, 10 * MS, 8 * MS)])
    assert text.count("?") == 8


def test_narrow_tables_leave_out_what_takes_longer():
    assert "aten::mm" not in printed([row(0), LATE], width=80)


@pytest.mark.parametrize("ranks", [()])
def test_a_single_rank_has_no_table(ranks):
    assert printed(ranks) == ""


# --- Many ranks ---


def test_others_are_summed_up_by_their_median_and_range():
    ranks = [row(0), structs.replace(row(1), work_ns=9 * MS), row(2), LATE]
    text = others_sentence(ranks, [LATE])
    assert text == "The other 3 ranks work 8.00 ms (8.00 ms to 9.00 ms) and wait 1.00 ms."
    assert others_sentence(ranks, ranks) == ""


def test_waits_that_nobody_recorded_are_not_summed_up():
    ranks = [RankUse(0, 10 * MS, 8 * MS), RankUse(1, 10 * MS, 8 * MS)]
    assert others_sentence(ranks, []) == "The other 2 ranks work 8.00 ms."


def test_the_latest_ranks_matter_in_order_of_their_numbers():
    ranks = [row(number, late_ns=number % 7) for number in range(20)]
    assert [rank.rank for rank in those_that_matter(ranks, 4)] == [5, 6, 12, 13]


# --- Page ---


def test_the_page_lists_ranks_by_number_with_numbers_to_sort_by(sample):
    result = structs.replace(sample("input_bound"), ranks=(row(2), row(10), LATE))
    table = rank_view(result).table
    assert [cells[0].text for cells in table.rows] == ["2", "10", "11"]
    late = [column.title for column in table.columns].index("Late by")
    assert [cells[late].value for cells in table.rows] == [0, 0, 4 * MS]
    page = html.render(result)
    assert '<h2 id="ranks">Ranks</h2>' in page
    assert "compute · aten::mm backward · a.py(3): f" in page


def test_the_page_of_many_ranks_has_those_that_matter(sample):
    ranks = tuple(row(number, late_ns=number) for number in range(1000))
    view = rank_view(structs.replace(sample("input_bound"), ranks=ranks))
    assert [cells[0].text for cells in view.table.rows] == [str(n) for n in range(999, 799, -1)]
    assert [one.title for one in view.table.columns if one.is_sorted] == ["Late by"]
    assert "The other 800 ranks" in view.note
    assert "200 of 1,000 ranks" in view.table.caption


def test_what_no_rank_recorded_has_no_column(sample):
    ranks = (RankUse(0, 10 * MS, 8 * MS), RankUse(1, 10 * MS, 8 * MS))
    view = rank_view(structs.replace(sample("input_bound"), ranks=ranks))
    assert [column.title for column in view.table.columns] == ["Rank", "Step", "Works"]
    assert [len(cells) for cells in view.table.rows] == [3, 3]
    assert "is not known" in view.meaning


def test_the_page_of_a_single_rank_has_no_section(sample):
    assert '<h2 id="ranks">' not in html.render(sample("input_bound"))


# --- Markdown ---


def test_markdown_has_a_table_of_ranks(sample):
    result = structs.replace(sample("input_bound"), ranks=(row(0), LATE))
    lines = markdown.render(result).splitlines()
    start = lines.index("### Ranks (2 of 2, per step)")
    assert lines[start + 2].startswith("| rank | step | works | waits")
    assert "4.00 ms | 3 | compute · aten::mm backward" in lines[start + 5]


def test_markdown_of_many_ranks_stays_short(sample):
    result = structs.replace(sample("input_bound"), ranks=tuple(map(row, range(300))))
    assert len(markdown.render(result).splitlines()) <= markdown.MOST_LINES
    assert "The other 292 ranks" in markdown.render(result)
    assert markdown.render(result, show_all=True).count("10.0 ms") >= 300
