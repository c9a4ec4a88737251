"""The table of ranks in the terminal."""

import io

import pytest

from stepwhy.findings import RankUse
from stepwhy.report.console import Console
from stepwhy.report.terminal.ranks import ranks_section

MS = 1_000_000


def printed(ranks, width=100, *, show_all=False):
    class Shown:
        pass

    Shown.ranks = ranks
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for part in ranks_section(Shown, width, show_all=show_all):
        console.print(part, width=width)
    return stream.getvalue()


def row(number, late_ns=0, **fields):
    return RankUse(
        number, 10 * MS, 8 * MS, wait_ns=MS, transfer_ns=MS, late_ns=late_ns, last=3, **fields
    )


LATE = row(11, 4 * MS, longer="compute", operation="aten::mm", phase="backward", line="a.py(3): f")


def test_a_row_says_how_long_a_rank_works_and_waits():
    text = printed([row(0), LATE])
    assert "Ranks  2 of 2, per step" in text
    assert "  rank     step    works    waits  moves data  late by  last in  takes longer" in text
    assert "   11  10.0 ms  8.00 ms  1.00 ms     1.00 ms  4.00 ms        3  " in text
    assert "compute · aten::mm backward · a.py(3): f" in " ".join(text.split())


def test_of_many_ranks_those_that_matter_are_listed():
    ranks = [row(number) for number in range(300) if number != 11]
    text = printed([*ranks[:11], LATE, *ranks[11:]])
    assert "8 of 300" in text
    assert " 11 " in text
    assert "all with --all" in text
    assert printed(ranks, show_all=True).count("10.0 ms") == 299


def test_what_is_unknown_is_no_zero():
    text = printed([RankUse(0, 10 * MS, 8 * MS), RankUse(1, 10 * MS, 8 * MS)])
    assert text.count("?") == 8


def test_narrow_tables_leave_out_what_takes_longer():
    assert "aten::mm" not in printed([row(0), LATE], width=80)


@pytest.mark.parametrize("ranks", [()])
def test_a_single_rank_has_no_table(ranks):
    assert printed(ranks) == ""
