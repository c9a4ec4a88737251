from hypothesis import given
from hypothesis import strategies as st

from stepwhy.findings import CATEGORIES
from stepwhy.report import picture

categories = st.dictionaries(st.sampled_from(CATEGORIES), st.integers(0, 10**12))


@given(categories, st.integers(len(CATEGORIES), 200))
def test_cells_fill_the_bar_and_hide_no_category(held, width):
    dealt = picture.cells(held, width)
    assert [name for name, _ in dealt] == [c for c in CATEGORIES if held.get(c, 0) > 0]
    assert sum(count for _, count in dealt) == (width if dealt else 0)
    assert all(count >= 1 for _, count in dealt)


def test_cells_are_proportional():
    held = {"unexplained": 1, "compute": 50, "input_wait": 149}
    assert picture.cells(held, 100) == [("compute", 25), ("input_wait", 74), ("unexplained", 1)]
