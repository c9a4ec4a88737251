"""The heat maps of the page."""

import re

import pytest
from msgspec import structs

from stepwhy.result import RankSteps, RankStepsRow, RankUse
from stepwhy.show import html
from stepwhy.show.html.heat import heat_maps

MS = 1_000_000


def steps(*work, per_column=1):
    """Ranks that work so many ms in each step; they wait for the one that works longest."""
    longest = [max(column) for column in zip(*work, strict=True)]
    rows = tuple(
        RankStepsRow(
            (number,),
            tuple(ms * MS for ms in row),
            tuple((most - ms) * MS for ms, most in zip(row, longest, strict=True)),
        )
        for number, row in enumerate(work)
    )
    return RankSteps(tuple(range(7, 7 + len(work[0]))), per_column, rows)


def cells(map_):
    """Shade of each cell that is drawn, by (x, y)."""
    found = {}
    for shade in map_.shades:
        for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1", shade.path):
            found |= {(int(x) + i, int(y)): shade.level for i in range(int(width))}
    return found


def test_late_ranks_are_dark_and_those_that_wait_for_them():
    work, wait = heat_maps(steps((20, 20, 20), (20, 36, 36))).maps
    assert cells(work) == {(1, 1): 8, (2, 1): 8}
    assert cells(wait) == {(1, 0): 8, (2, 0): 8}
    assert (work.least, work.most, wait.least, wait.most) == (
        "20.0 ms", "36.0 ms", "0 ns", "16.0 ms",
    )  # fmt: skip


def test_ranks_that_are_alike_look_alike():
    work, wait = heat_maps(steps((1000, 1000), (1000, 1006))).maps
    assert cells(work) == {}
    assert cells(wait) == {}


def test_neighbours_of_one_shade_are_one_rectangle():
    (work, _) = heat_maps(steps((0, 0, 0), (8, 8, 8))).maps
    assert [shade.path for shade in work.shades] == ["M0 1h3v1h-3z"]


def test_the_picture_is_told_in_words():
    maps = heat_maps(steps((20, 20), (20, 40)))
    assert maps.rows == ("rank 0", "rank 1")
    assert maps.columns == ("step 7", "step 8")
    assert maps.maps[0].cells == (("20.0 ms", "20.0 ms"), ("20.0 ms", "40.0 ms"))
    assert maps.maps[0].summary == (
        "Works longest: rank 1, 30.0 ms in the mean step; the median of all is 20.0 ms"
    )
    assert maps.note == ""


def test_summed_up_ranks_and_steps_are_told():
    one = steps((20, 20), (20, 40), per_column=3)
    rows = (one.rows[0], structs.replace(one.rows[1], ranks=(1, 2, 3)))
    maps = heat_maps(structs.replace(one, rows=rows))
    assert maps.rows[1] == "3 ranks from 1 to 3"
    assert maps.labels == ("0", "1…")
    assert maps.columns[0] == "3 steps from 7"
    assert "each further row is the median of several ranks" in maps.note
    assert "Each column is the mean of 3 steps." in maps.note


@pytest.mark.parametrize("ranks", [17, 64])
def test_labels_have_room(ranks):
    maps = heat_maps(steps(*[(20, 20)] * ranks))
    assert len(maps.labels) == ranks
    assert sum(map(bool, maps.labels)) <= 16


def test_the_page_has_the_maps_only_where_ranks_are_compared(sample):
    ranks = tuple(RankUse(n, 40 * MS, 20 * MS) for n in range(2))
    result = structs.replace(sample("input_bound"), ranks=ranks)
    assert "<figure" not in html.render(result)
    page = html.render(structs.replace(result, rank_steps=steps((20, 20), (20, 40))))
    assert page.count('<figure class="heat') == 2
    assert page.count('<td class="n">40.0\N{NO-BREAK SPACE}ms</td>') == 1
    assert "Arrow keys move" in page
