"""Medians that leave one value out."""

import numpy as np
import pytest

from stepwhy.analyse.ranks.others import median_of_others


@pytest.mark.parametrize("count", range(2, 9))
def test_it_is_the_median_without_the_row(count):
    values = np.random.default_rng(count).integers(0, 5, (count, 20))
    expected = [np.median(np.delete(values, row, axis=0), axis=0) for row in range(count)]
    assert median_of_others(values).tolist() == np.array(expected).tolist()
    assert median_of_others(values[:, 0]).tolist() == np.array(expected)[:, 0].tolist()


def test_a_single_row_has_no_others():
    assert median_of_others(np.array([[3, 4]])).tolist() == [[0, 0]]
