from hypothesis import given
from hypothesis import strategies as st

from stepwhy.result import CATEGORIES
from stepwhy.show import picture

categories = st.dictionaries(st.sampled_from(CATEGORIES), st.integers(0, 10**12))


@given(categories, st.integers(len(CATEGORIES), 200))
def test_cells_fill_the_bar_and_hide_no_category(times, width):
    cells = picture.cells(times, width)
    assert [name for name, _ in cells] == [c for c in CATEGORIES if times.get(c, 0) > 0]
    assert sum(count for _, count in cells) == (width if cells else 0)
    assert all(count >= 1 for _, count in cells)


def test_cells_are_proportional():
    times = {"unexplained": 1, "compute": 50, "input_wait": 149}
    assert picture.cells(times, 100) == [("compute", 25), ("input_wait", 74), ("unexplained", 1)]
