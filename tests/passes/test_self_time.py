"""Self times, the last slices first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.timeline import Timeline

from stepwhy.passes import selection, self_time
from stepwhy.passes.nesting import NO_PARENT, nest
from stepwhy.passes.self_time import self_times
from stepwhy.trace import Kind

FEW = settings(max_examples=100, deadline=None, derandomize=True)
spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from("ab")), max_size=12
)


def drawn(rows):
    line = Timeline(unit_ns=1)
    for start, length, thread in rows:
        line.add(line.thread(thread), Kind.OP, start, start + length)
    return line.trace()


def expected(trace, nesting):
    """By the definition, one slice after another."""
    own = nesting.ends(trace, np.arange(len(trace.slices))) - trace.slices.start_ns
    whole = own.copy()
    for row, parent in enumerate(nesting.parent.tolist()):
        if parent != NO_PARENT:
            own[parent] -= whole[row]
    return own.tolist()


@pytest.mark.usefixtures("kernels")
@FEW
@given(spans, st.sampled_from([1, 2, 5, 100]), st.sampled_from([0, 1 << 19]))
def test_pieces_say_what_the_whole_does(rows, piece, many):
    trace = drawn(rows)
    nesting = nest(trace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_PIECE", piece)
        patch.setattr(self_time, "_MANY", many)
        pieces = list(self_times(nesting))
    assert [part.start for part, _ in pieces] == list(range(0, len(rows), piece))[::-1]
    found = [ns for _, times in reversed(pieces) for ns in times.tolist()]
    assert found == expected(trace, nesting)
