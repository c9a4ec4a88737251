"""The semantic step, from what was noted of it."""

from __future__ import annotations

import json

import pytest

from stepwhy.read.formats.run_directory.semantic_log import add_semantics
from stepwhy.trace import NULL, Meta, TraceBuilder

INPUT = {"op": "aten::embedding", "line": "a.py(3): f", "rows": 4, "columns": 9, "padded": 5}
NOTES = {
    "schema": "stepwhy.semantic/1",
    "names": ["aten::embedding", "aten::mm"],
    "ops": [0, 1, 1],
    "padding": [555, 555, 0],
    "inputs": [INPUT, {**INPUT, "line": "", "at_start": True}],
}


def read(data):
    builder = TraceBuilder()
    left_out = add_semantics(data, builder)
    return builder.finish(Meta("step-log")), left_out


def notes(**changed):
    return json.dumps({**NOTES, **changed}).encode()


def test_operations_and_index_inputs_are_rows():
    trace, left_out = read(notes())
    ops, inputs = trace.step_ops, trace.index_inputs
    assert left_out == []
    assert [trace.string(n) for n in ops.name] == ["aten::embedding", "aten::mm", "aten::mm"]
    assert ops.padding.tolist() == [555, 555, 0]
    assert [trace.string(n) for n in inputs.line] == ["a.py(3): f", ""]
    assert [inputs.rows.tolist(), inputs.columns.tolist()] == [[4, 4], [9, 9]]
    assert [inputs.padded.tolist(), inputs.at_start.tolist()] == [[5, 5], [0, 1]]


def test_without_padding_no_share_is_written():
    assert read(notes(padding=[]))[0].step_ops.padding.tolist() == [0, 0, 0]


def test_constants_have_a_line():
    ops = (read(notes(lines=["a.py(9): f", ""], constant=[-1, 0, 1]))[0]).step_ops
    assert ops.constant.tolist() == [0, 1, 1]
    assert (ops.line != NULL).tolist() == [False, True, False]


def test_constants_are_unknown_before_they_were_compared():
    assert read(notes())[0].step_ops.constant.tolist() == [NULL] * 3


@pytest.mark.parametrize("constant", [[0], [0, 0, 1], [0, 0, "x"], [0, 0, -2]])
def test_damaged_constants_are_left_out_alone(constant):
    trace, (text,) = read(notes(lines=["a"], constant=constant))
    assert trace.step_ops.constant.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "constants" in text


def test_what_becomes_of_results_is_kept():
    assert read(notes(unread=[0, 1, 2]))[0].step_ops.unread.tolist() == [0, 1, 2]
    assert read(notes())[0].step_ops.unread.tolist() == [NULL] * 3


@pytest.mark.parametrize("unread", [[0], [0, 0, 3], [0, 0, "x"], [0, 0, -1]])
def test_a_damaged_use_of_results_is_left_out_alone(unread):
    trace, (text,) = read(notes(unread=unread))
    assert trace.step_ops.unread.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "results" in text


def test_repeated_results_are_kept():
    assert read(notes(repeated=[0, 1, 1]))[0].step_ops.repeated.tolist() == [0, 1, 1]
    assert read(notes())[0].step_ops.repeated.tolist() == [NULL] * 3


@pytest.mark.parametrize("repeated", [[0], [0, 0, 2], [0, 0, "x"], [0, 0, -1]])
def test_damaged_repeated_results_are_left_out_alone(repeated):
    trace, (text,) = read(notes(repeated=repeated))
    assert trace.step_ops.repeated.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "repeated results" in text


CHOICES = [{"line": "a.py(7): f", "how": "rows", "of_table": True}]


def test_the_rows_that_nothing_reads_are_kept():
    trace, left_out = read(notes(unused=[0, 850, 0], choice=[-1, 0, -1], choices=CHOICES))
    ops = trace.step_ops
    assert left_out == []
    assert ops.unused.tolist() == [0, 850, 0]
    assert [trace.string(ops.chosen_at[1]), trace.string(ops.chosen_by[1])] == [
        "a.py(7): f",
        "rows",
    ]
    assert ops.of_table.tolist() == [NULL, 1, NULL]
    assert read(notes())[0].step_ops.unused.tolist() == [NULL] * 3


@pytest.mark.parametrize(
    "parts",
    [
        {"unused": [850], "choice": [0]},
        {"unused": [0, 0, 1001], "choice": [0, 0, 0]},
        {"unused": [0, 0, 1], "choice": [0, 0, 1]},
        {"unused": [0, 0, 1], "choice": [0, 0]},
        {"unused": [0, 0, 1], "choice": [0, 0, 0], "choices": [{"line": 3}]},
    ],
)
def test_damaged_parts_of_results_are_left_out_alone(parts):
    trace, (text,) = read(notes(**{"choices": CHOICES, **parts}))
    assert trace.step_ops.unused.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "parts" in text


@pytest.mark.parametrize("padding", [[555], [555, 555, 1001], [555, 555, "x"]])
def test_damaged_shares_are_left_out_alone(padding):
    trace, left_out = read(notes(padding=padding))
    assert trace.step_ops.padding.tolist() == [NULL] * 3
    assert len(trace.index_inputs) == 2
    (text,) = left_out
    assert "shares of padding" in text


@pytest.mark.parametrize("damaged", [{**INPUT, "padded": 10}, {**INPUT, "rows": -1}, 3])
def test_a_damaged_input_is_left_out_alone(damaged):
    trace, left_out = read(notes(inputs=[damaged, INPUT]))
    assert (len(trace.step_ops), len(trace.index_inputs)) == (3, 1)
    (text,) = left_out
    assert "index inputs" in text


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"\xff",
        notes()[:-1],
        notes(ops=[2]),
        notes(ops=[-1]),
        notes(ops=[0.5]),
        notes(names=3),
        notes(names=["a", 1]),
        notes(schema="stepwhy.lines/1"),
        notes(schema="stepwhy.semantic/" + "9" * 5000),
        notes(schema=None),
    ],
    ids=range(11),
)
def test_a_damaged_file_adds_nothing_and_says_so(data):
    trace, (text,) = read(data)
    assert (len(trace.step_ops), len(trace.index_inputs)) == (0, 0)
    assert "damaged" in text


@pytest.mark.parametrize("changed", [{}, {"ops": {"0": 1}}, {"names": None}])
def test_a_newer_file_is_left_out(changed):
    trace, (text,) = read(notes(schema="stepwhy.semantic/2", **changed))
    assert len(trace.step_ops) == 0
    assert "later version" in text


def test_no_file_says_nothing():
    assert read(b"")[1] == []


def test_subnormal_numbers_are_kept_and_others_are_known_to_have_none():
    ops = read(notes(subnormal=[[1, 750, 9000, 300]]))[0].step_ops
    assert ops.subnormal.tolist() == [0, 750, 0]
    assert [ops.subnormal_ns.tolist(), ops.usual_ns.tolist()] == [[0, 9000, 0], [0, 300, 0]]
    assert read(notes())[0].step_ops.subnormal.tolist() == [NULL] * 3


@pytest.mark.parametrize("found", [[[3, 1, 1, 1]], [[0, 1001, 1, 1]], [[0, 1]]])
def test_damaged_subnormal_numbers_are_left_out_alone(found):
    trace, (text,) = read(notes(subnormal=found))
    assert trace.step_ops.subnormal.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "subnormal" in text


ZEROS = [1, 984, "blocks", 64, "1536x1536", 9000, 300, 1]


def test_operands_of_zeros_are_kept_and_others_are_known_to_have_none():
    trace, left_out = read(notes(zeros=[ZEROS], zero_makers=[0]))
    ops = trace.step_ops
    assert left_out == []
    assert ops.zeros.tolist() == [0, 984, 0]
    assert ops.makes_zeros.tolist() == [1, 0, 0]
    assert [trace.string(ops.zero_pattern[1]), trace.string(ops.zero_shape[1])] == [
        "blocks",
        "1536x1536",
    ]
    assert [ops.zero_ns[1], ops.without_zeros_ns[1], ops.zero_constant[1]] == [9000, 300, 1]
    assert read(notes())[0].step_ops.zeros.tolist() == [NULL] * 3


@pytest.mark.parametrize(
    "damaged",
    [{"zeros": [[3, *ZEROS[1:]]]}, {"zeros": [[1]]}, {"zeros": [], "zero_makers": ["x"]}],
)
def test_damaged_operands_of_zeros_are_left_out_alone(damaged):
    trace, (text,) = read(notes(**damaged))
    assert trace.step_ops.zeros.tolist() == [NULL] * 3
    assert trace.step_ops.padding.tolist() == [555, 555, 0]
    assert "zeros" in text
