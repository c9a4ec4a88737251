"""Copies of buffers in compiled programs, of which a part is then changed."""

import pytest
from tests.read.hlo_samples import hlo_proto
from tests.read.xplane_samples import (
    block,
    event,
    host,
    line,
    metadata_plane,
    number,
    source_of,
    xspace,
)

from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.reader import read
from stepwhy.read.formats.xplane.rewrites import Rewrite, rewrites_of

SCATTER = """
    main
    buffer = f32[50,4] parameter(0)
    places = s32[2] parameter(1)
    rows = f32[2,4] parameter(2)
    copy.1 = f32[50,4] copy(buffer)
    wrapped_scatter = f32[50,4] fusion(copy.1, places, rows) calls=scattering

    scattering
    p0 = f32[50,4] parameter(0)
    p1 = s32[2] parameter(1)
    p2 = f32[2,4] parameter(2)
    scatter.1 = f32[50,4] scatter(p0, p1, p2)
"""
SLICE = """
    main
    buffer = f32[50,4] parameter(0)
    rows = f32[2,4] parameter(1)
    place = s32[] parameter(2)
    copy.1 = f32[50,4] copy(buffer)
    first = f32[50,4] dynamic-update-slice(copy.1, rows, place)
    second = f32[50,4] dynamic-update-slice(first, rows, place)
"""
LOOP = """
    main
    buffer = f32[50,4] parameter(0)
    row = f32[1,4] parameter(1)
    copy.1 = f32[50,4] copy(buffer)
    state = tuple tuple(row, copy.1)
    call.1 = tuple call(state) calls=looping
    result = f32[50,4] get-tuple-element(call.1) index=1

    looping
    state = tuple parameter(0)
    while.1 = tuple while(state) calls=body trips=10

    body
    state = tuple parameter(0)
    row = f32[1,4] get-tuple-element(state) index=0
    buffer = f32[50,4] get-tuple-element(state) index=1
    place = s32[] constant(3)
    changed = f32[50,4] dynamic-update-slice(buffer, row, place)
    next = tuple tuple(row, changed)
"""
WINDOW = """
    main
    buffer = f32[50,4] parameter(0)
    row = f32[1,4] parameter(1)
    moved = f32[50,4] fusion(buffer, row) calls=moving

    moving
    p0 = f32[50,4] parameter(0)
    p1 = f32[1,4] parameter(1)
    slice.1 = f32[49,4] slice(p0)
    concatenate.1 = f32[50,4] concatenate(slice.1, p1)
    same = f32[50,4] bitcast(concatenate.1)
"""
INSIDE = """
    main
    row = f32[1,4] parameter(0)
    place = s32[] parameter(1)
    made = f32[50,4] custom-call(row)
    copy.1 = f32[50,4] copy(made)
    changed = f32[50,4] dynamic-update-slice(copy.1, row, place)
    both = tuple tuple(made, changed)
"""


@pytest.mark.parametrize(
    ("program", "name", "rewrite"),
    [
        (SCATTER, "copy.1", Rewrite(800, 32, "scatter", True)),
        (SLICE, "copy.1", Rewrite(800, 64, "dynamic-update-slice", True)),
        (LOOP, "copy.1", Rewrite(800, 160, "dynamic-update-slice", True)),
        (WINDOW, "moved", Rewrite(800, 16, "concatenate", True)),
        (INSIDE, "copy.1", Rewrite(800, 16, "dynamic-update-slice", False)),
    ],
)
def test_a_copy_that_is_changed_in_part(program, name, rewrite):
    assert rewrites_of(read_module(hlo_proto(program))) == {name: rewrite}


@pytest.mark.parametrize(
    "program",
    [
        SCATTER.replace("copy(buffer)", "add(buffer, buffer)"),
        SLICE.replace("(copy.1, rows", "(buffer, rows"),
        LOOP.replace(" trips=10", ""),
        LOOP.replace("trips=10", "trips=100"),
        WINDOW.replace("slice(p0)", "negate(p0)"),
        # A copy in another layout, which nothing writes into.
        "main\nbuffer = f32[50,4] parameter(0)\ncopy.1 = f32[50,4] copy(buffer)",
    ],
    ids=["computed", "in place", "unknown length", "all changes", "other values", "unchanged"],
)
def test_other_work_is_no_such_copy(program):
    assert rewrites_of(read_module(hlo_proto(program))) == {}


def compiled(program, key=7):
    """An entry of '/host:metadata' with a program."""
    stat = block(5, number(1, 1), block(6, hlo_proto(program)))
    return block(4, number(1, key), block(2, number(1, key), stat))


def test_slices_of_the_copy_are_in_the_table():
    ran = [event(name, 10 * i, 5, hlo_op=name, program_id=7)
           for i, name in enumerate(("other", "copy.1", "wrapped_scatter", "copy.1"))]  # fmt: skip
    elsewhere = event("copy.1", 90, 5, hlo_op="copy.1", program_id=8)
    space = xspace(host(line("tf_XLAEigen/9", *ran, elsewhere)))
    trace = read(source_of(space + metadata_plane(compiled(SCATTER))))
    table = trace.rewrites
    assert table.slice.tolist() == [1, 3]
    assert set(table.copied_bytes.tolist()) == {800}
    assert set(table.changed_bytes.tolist()) == {32}
    assert [trace.string(o) for o in table.operation.tolist()] == ["scatter"] * 2
    assert table.of_argument.tolist() == [1, 1]


@pytest.mark.parametrize("callee", ["", "calls=main"])
def test_a_damaged_program_says_nothing(callee):
    damaged = compiled(SCATTER.replace("calls=scattering", callee))
    space = xspace(
        host(line("tf_XLAEigen/9", event("copy.1", 0, 5, hlo_op="copy.1", program_id=7)))
    )
    trace = read(source_of(space + metadata_plane(damaged)))
    assert len(trace.rewrites) == 0
    assert trace.health.has("program-unread")
