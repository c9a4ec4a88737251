"""Instructions of compiled programs that work on a whole table for some of its rows."""

import pytest
from tests.read.hlo_samples import hlo_proto
from tests.read.test_xplane_rewrites import compiled
from tests.read.xplane_samples import event, host, line, metadata_plane, source_of, xspace

from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.reader import read
from stepwhy.read.formats.xplane.table_updates import TableUpdate, updates_of

# As XLA compiles an update by the gradient of `table[ids]`: 100 rows of 4 numbers, of which 2.
PLAIN = """
    main
    table = f32[100,4] parameter(0)
    ids = s32[2,1] parameter(1)
    zero = f32[] constant(0)
    zeros.1 = f32[100,4] fusion(zero) calls=filling
    rows = f32[2,1,4] gather(table, ids)
    scatter.1 = f32[100,4] fusion(zeros.1, ids, rows) calls=scattering
    update.1 = f32[100,4] fusion(table, scatter.1) calls=updating

    updating
    p0 = f32[100,4] parameter(0)
    p1 = f32[100,4] parameter(1)
    new = f32[100,4] subtract(p0, p1)

    scattering
    p0 = f32[100,4] parameter(0)
    p1 = s32[2,1] parameter(1)
    p2 = f32[2,1,4] parameter(2)
    scatter.7 = f32[100,4] scatter(p0, p1, p2) calls=adding

    adding
    a = f32[] parameter(0)
    b = f32[] parameter(1)
    sum = f32[] add(a, b)

    filling
    p0 = f32[] parameter(0)
    fill = f32[100,4] broadcast(p0)
"""
ADAM = PLAIN.replace(
    "    update.1 = f32[100,4] fusion(table, scatter.1) calls=updating\n",
    """    moment = f32[100,4] parameter(2)
    kept = f32[100,4] copy(moment)
    moment.1 = f32[100,4] fusion(kept, scatter.1) calls=updating
    update.1 = f32[100,4] fusion(table, moment.1) calls=updating
    norm.1 = f32[] reduce(scatter.1, zero) calls=adding
    result = tuple tuple(update.1, moment.1, norm.1)
""",
)
UPDATED = "fusion(table, scatter.1) calls=updating"
SUMMED = "fusion(table, sum.1) calls=updating"
HEAD = """    head = f32[100,4] dot(rows, rows)
    sum.1 = f32[100,4] add(scatter.1, head)
    update.1 ="""
INSIDE = PLAIN.replace("fusion(zero) calls=filling", "broadcast(zero)").replace(
    "fusion(zeros.1, ids, rows) calls=scattering", "scatter(zeros.1, ids, rows) calls=adding"
)
TWICE = PLAIN.replace(
    "    update.1 =",
    """    scatter.2 = f32[100,4] fusion(zeros.1, ids, rows) calls=scattering
    sum.1 = f32[100,4] add(scatter.1, scatter.2)
    update.1 =""",
).replace(UPDATED, SUMMED)
ONE = TableUpdate(1600, 32)


def updates(text):
    return {n: why for n, why in updates_of(read_module(hlo_proto(text))).items() if "." in n}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, dict.fromkeys(["zeros.1", "scatter.1", "update.1"], ONE)),
        (INSIDE, dict.fromkeys(["zeros.1", "scatter.1", "update.1"], ONE)),
        (ADAM, dict.fromkeys(["zeros.1", "scatter.1", "moment.1", "update.1", "norm.1"], ONE)),
        (
            TWICE,
            dict.fromkeys(
                ["zeros.1", "scatter.1", "scatter.2", "sum.1", "update.1"], TableUpdate(1600, 64)
            ),
        ),
    ],
    ids=["plain", "without fusions", "with a moment and a norm", "two lookups"],
)
def test_work_on_the_whole_table(text, expected):
    assert updates(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("sum = f32[] add(a, b)", "sum = f32[] maximum(a, b)"),
        PLAIN.replace("fusion(zeros.1, ids", "fusion(table, ids"),
        PLAIN.replace(UPDATED, "dot(scatter.1, rows)"),
        PLAIN.replace("    update.1 =", HEAD).replace(UPDATED, SUMMED),
        PLAIN.replace(UPDATED, UPDATED.replace("table", "scatter.1")),
        PLAIN.replace("f32[2,1,4]", "f32[200,1,4]"),
    ],
    ids=["maximum", "into the table", "an activation", "a tied head", "no argument", "many rows"],
)
def test_other_scatters_are_none(text):
    assert updates(text) == {}


def test_slices_of_the_work_are_in_the_table():
    names = ("rows", "scatter.1", "update.1")
    ran = [event(n, 10 * i, 5, hlo_op=n, program_id=7) for i, n in enumerate(names)]
    space = xspace(host(line("tf_XLAEigen/9", *ran)))
    table = read(source_of(space + metadata_plane(compiled(PLAIN)))).table_updates
    assert table.slice.tolist() == [1, 2]
    assert (table.table_bytes.tolist(), table.used_bytes.tolist()) == ([1600] * 2, [32] * 2)
