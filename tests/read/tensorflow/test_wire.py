"""Torn messages."""

from hypothesis import given
from hypothesis import strategies as st
from tests.read.tf_samples import CPU, step_stats

from stepwhy.read.inputs.wire import close_torn, dig
from stepwhy.read.shared.tensorflow.messages import parse_message

DATA = step_stats(
    [(CPU, [(f"x{i}", "x = Relu()", i, 1, 300) for i in range(3)]), ("/gpu:0", [])]
).SerializeToString()


def test_a_path_of_field_numbers_leads_to_the_bytes():
    assert list(dig(DATA, 1, 1)) == [CPU.encode(), b"/gpu:0"]
    assert list(dig(DATA, 1, 2, 1)) == [b"x0", b"x1", b"x2"]
    assert list(dig(DATA, 3)) == []


def test_a_whole_message_stays_as_it_is():
    assert close_torn(DATA, {1: {}}) == DATA


@given(st.integers(0, len(DATA)))
def test_wherever_it_is_torn_whole_entries_survive(length):
    whole = parse_message("StepStats", DATA)
    saved = parse_message("StepStats", close_torn(DATA[:length], {1: {}}))
    assert saved is not None
    for ours, theirs in zip(saved.dev_stats, whole.dev_stats, strict=False):
        assert list(ours.node_stats) == list(theirs.node_stats)[: len(ours.node_stats)]
