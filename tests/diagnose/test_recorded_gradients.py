"""In how many steps gradients are recorded."""

import numpy as np
import pytest

from stepwhy.diagnose.not_needed.shared.recorded_gradients import _share_of_steps


@pytest.mark.parametrize(
    ("found", "count", "share"),
    [
        ([0, 1, 2, 3], 4, 1),
        ([0, 1, 2], 4, 1),  # the last one is cut
        ([1, 2], 4, 1),
        ([0, 3], 4, 0.5),
        ([2], 6, 0.25),
        ([1], 3, 1 / 3),  # one step may be an exception
        ([0], 1, 1),
        ([], 0, 0),
    ],
)
def test_the_first_and_the_last_step_may_be_cut(found, count, share):
    assert _share_of_steps(np.array(found, dtype=np.int64), count) == pytest.approx(share)
