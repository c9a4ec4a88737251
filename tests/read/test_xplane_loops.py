"""Loops of compiled programs whose iterations do not need each other."""

import pytest
from tests.read.hlo_samples import hlo_proto
from tests.read.test_xplane_rewrites import compiled
from tests.read.xplane_samples import event, host, line, metadata_plane, source_of, xspace

from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.loops import LoopWork, loop_work_of
from stepwhy.read.formats.xplane.reader import read

# As XLA compiles `lax.map` over 64 rows, with a running sum of the results.
ROWS = """
    main
    start = tuple parameter(0)
    while.1 = tuple while(start) calls=body trips=64

    body
    state = tuple parameter(0)
    i = s32[] get-tuple-element(state) index=0
    out = f32[64,4] get-tuple-element(state) index=1
    total = f32[] get-tuple-element(state) index=2
    rows = f32[64,4] get-tuple-element(state) index=3
    one = s32[] constant(1)
    next = s32[] add(i, one)
    row = f32[1,4] dynamic-slice(rows, i)
    new.1 = f32[1,4] tanh(row)
    out.1 = f32[64,4] fusion(out, new.1, i) calls=writing
    sum.1 = f32[] reduce(new.1)
    total.1 = f32[] add(total, sum.1)
    result = tuple tuple(next, out.1, total.1, rows)

    writing
    p0 = f32[64,4] parameter(0)
    p1 = f32[1,4] parameter(1)
    p2 = s32[] parameter(2)
    written = f32[64,4] dynamic-update-slice(p0, p1, p2)
"""
# A recurrent layer: the state enters the next iteration.
STATE = """
    main
    start = tuple parameter(0)
    while.1 = tuple while(start) calls=body trips=64

    body
    state = tuple parameter(0)
    i = s32[] get-tuple-element(state) index=0
    hidden = f32[2,8] get-tuple-element(state) index=1
    rows = f32[64,2,4] get-tuple-element(state) index=2
    w_in = f32[4,8] get-tuple-element(state) index=3
    w_own = f32[8,8] get-tuple-element(state) index=4
    one = s32[] constant(1)
    next = s32[] add(i, one)
    row = f32[2,4] dynamic-slice(rows, i)
    early = f32[2,8] dot(row, w_in)
    late = f32[2,8] dot(hidden, w_own)
    both = f32[2,8] add(early, late)
    new = f32[2,8] tanh(both)
    result = tuple tuple(next, new, rows, w_in, w_own)
"""
# Its backward pass, with the gradients of both weights.
BACKWARD = (
    STATE.replace(
        "    while.1 = tuple while(start) calls=body trips=64\n",
        """    while.1 = tuple while(start) calls=body trips=64
    while.2 = tuple while(while.1) calls=backward trips=64
""",
    ).rstrip("\n ")
    + """

    backward
    state = tuple parameter(0)
    change = f32[2,8] get-tuple-element(state) index=0
    of_in = f32[4,8] get-tuple-element(state) index=1
    of_own = f32[8,8] get-tuple-element(state) index=2
    saved = f32[2,4] get-tuple-element(state) index=3
    w_own = f32[8,8] get-tuple-element(state) index=4
    before = f32[2,8] dot(change, w_own)
    part.1 = f32[4,8] dot(saved, change)
    part.2 = f32[8,8] dot(change, change)
    of_in.1 = f32[4,8] add(of_in, part.1)
    of_own.1 = f32[8,8] add(of_own, part.2)
    result = tuple tuple(before, of_in.1, of_own.1, saved, w_own)
"""
)


def found(program):
    return loop_work_of(read_module(hlo_proto(program)))


def test_rows_that_do_not_need_each_other():
    work = found(ROWS)
    assert set(work.values()) == {LoopWork("while.1", 64, is_independent=True)}
    assert {"while.1", "new.1", "out.1", "sum.1"} <= set(work)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tanh(row)", "add(row, total)"),  # the sum so far enters the result
        ("dynamic-slice(rows, i)", "dynamic-slice(out, i)"),  # as do earlier rows
        ("reduce(new.1)", "reduce(total)"),
        ("add(total, sum.1)", "multiply(total, sum.1)"),
        ("dynamic-update-slice(p0, p1, p2)", "add(p0, p0)"),
        ("trips=64", "trips=2"),
        (" trips=64", ""),
    ],
)
def test_an_iteration_that_needs_an_earlier_one(before, after):
    assert before in ROWS
    assert found(ROWS.replace(before, after)) == {}


def test_a_key_of_random_numbers_is_no_state():
    key = "    total = f32[] get-tuple-element(state) index=2\n"
    program = ROWS.replace(key, "    total = u32[2] get-tuple-element(state) index=2\n")
    program = program.replace("total.1 = f32[] add(total, sum.1)", "total.1 = u32[2] xor(total, i)")
    assert "new.1" in found(program)


def test_a_row_that_is_kept_where_its_place_is_out_of_bounds():
    program = ROWS.replace(
        "    written = f32[64,4] dynamic-update-slice(p0, p1, p2)",
        """    inside = pred[] compare(p2, p2)
    old = f32[1,4] dynamic-slice(p0, p2)
    chosen = f32[1,4] select(inside, p1, old)
    written = f32[64,4] dynamic-update-slice(p0, chosen, p2)""",
    )
    assert "new.1" in found(program)
    assert found(program.replace("select(inside, p1, old)", "add(p1, old)")) == {}


def test_a_product_that_needs_no_earlier_iteration():
    assert found(STATE) == {"early": LoopWork("while.1", 64, is_independent=False)}


OUTPUT = """
    scores = f32[2,9] dot(new, w_out)
    out.1 = f32[64,2,9] fusion(out, scores, i) calls=writing
    result = tuple tuple(next, new, rows, w_in, w_own, w_out, out.1)

    writing
    p0 = f32[64,2,9] parameter(0)
    p1 = f32[2,9] parameter(1)
    p2 = s32[] parameter(2)
    written = f32[64,2,9] dynamic-update-slice(p0, p1, p2)
"""


def test_a_product_that_no_later_iteration_needs():
    program = STATE.replace(
        "    one = s32[] constant(1)",
        "    w_out = f32[8,9] get-tuple-element(state) index=5\n"
        "    out = f32[64,2,9] get-tuple-element(state) index=6\n"
        "    one = s32[] constant(1)",
    ).replace("    result = tuple tuple(next, new, rows, w_in, w_own)\n", OUTPUT.lstrip("\n"))
    about = LoopWork("while.1", 64, is_independent=False)
    assert found(program) == {"early": about, "scores": about}
    # Attention over what the loop carries has no weights.
    attends = program.replace("dot(new, w_out)", "dot(new, early)")
    assert found(attends) == {"early": about}
    # The next iteration reads it.
    feeds_back = program.replace("new, rows", "scores, rows")
    assert found(feeds_back) == {"early": about}


def test_the_gradient_of_its_weights_is_one_product_too():
    work = found(BACKWARD)
    assert {name: about.loop for name, about in work.items()} == {
        "early": "while.1",
        "of_in.1": "while.2",
        "part.1": "while.2",
    }


def test_slices_of_the_loop_are_in_the_table():
    ran = [event(name, 10 * i, 5, hlo_op=name, program_id=7)
           for i, name in enumerate(("new.1", "other", "new.1"))]  # fmt: skip
    space = xspace(host(line("tf_XLAEigen/9", *ran)))
    table = read(source_of(space + metadata_plane(compiled(ROWS)))).argument_uses
    assert (table.slice.tolist(), table.trips.tolist()) == ([0, 2], [64, 64])
    assert table.independent.tolist() == [1, 1]
