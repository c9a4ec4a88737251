"""JSON that is damaged in a few places: what is whole is kept, and what is lost is counted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.read.shared.repaired_json import repaired, without_nulls
from stepwhy.trace import Health

RECORD = {"a": 1, "b": {"c": [1, 2]}, "d": "x"}


def read(text):
    """The value, the number of lost elements, and whether the text is complete."""
    health = Health()
    found = repaired(text if isinstance(text, bytes) else text.encode(), health)
    return json.loads(found.text), found.lost, found.complete, health


@pytest.mark.parametrize(
    "damaged",
    [
        '{"a": 1, "b": {"c": [1,',  # half of it
        '{"a": 1, "b": }',
        '{"a": 1 "b": 2}',
        '{"a": "un"quoted"}',
        '{"a": "\\q"}',
    ],
)
def test_a_damaged_record_costs_only_itself(damaged):
    whole = json.dumps(RECORD)
    value, lost, complete, health = read(
        f'{{"x": {{"list": [{whole}, {damaged}, {whole}]}}, "y": 1}}'
    )
    assert value == {"x": {"list": [RECORD, RECORD]}, "y": 1}
    assert (lost, complete) == (1, True)
    assert {c.counter: c.count for c in health.counters} == {"unreadable-record": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2,]", [1, 2]),
        ("[1,, 2]", [1, 2]),
        ('{"a": 1,}', {"a": 1}),
        ('[{"a": NaN}, -Infinity]', [{"a": None}, None]),
        ('["a\nb"]', ["a\nb"]),
        ('["\\ud800"]', ["?"]),
    ],
)
def test_what_python_can_read_is_kept(text, value):
    assert read(text)[:3] == (value, 0, True)


def test_a_text_that_ends_early_is_not_complete():
    value, lost, complete, _ = read('{"x": [1, 2, 3')
    assert (value, lost, complete) == ({"x": [1, 2, 3]}, 0, False)


@pytest.mark.parametrize(
    ("rest", "counter"),
    [("\nDone.", "text-after-end"), ('\n{"x": 2}', "further-trace"), ("\n", None)],
)
def test_what_follows_is_counted_by_size(rest, counter):
    value, *_, health = read('{"x": 1}' + rest)
    assert value == {"x": 1}
    assert [c.counter for c in health.counters] == ([counter] if counter else [])
    assert all(f"{len(rest)} B" in c.help for c in health.counters)


@pytest.mark.parametrize("text", [b"", b"x", b'{"a"', b"\x00\xff"])
def test_of_some_texts_nothing_can_be_read(text):
    assert repaired(text, Health()) is None


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_damage_never_surprises(data):
    text = bytearray(json.dumps({"x": [RECORD] * 3}).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    found = repaired(bytes(text), Health())
    assert found is None or json.loads(found.text) is not ...


def test_nulls_in_lists_are_no_elements():
    assert without_nulls({"a": [1, None, [None, 2]], "b": None}) == {"a": [1, [2]], "b": None}
