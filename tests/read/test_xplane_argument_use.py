"""What instructions of compiled programs compute from."""

import pytest
from tests.read.hlo_samples import hlo_proto
from tests.read.test_xplane_rewrites import compiled
from tests.read.xplane_samples import event, host, line, metadata_plane, source_of, xspace

from stepwhy.read.formats.xplane.argument_use import argument_uses
from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.reader import read

# As a layer of a graph network that normalises the matrix of the graph in each call.
NORMALISED = """
    main
    w = f32[8,4] parameter(0) named=params['w']
    adj = f32[8,8] parameter(1) named=adj
    one = f32[] constant(1)
    loops.1 = f32[8,8] fusion(adj, one) calls=scaling
    dot.1 = f32[8,4] dot(loops.1, w)

    scaling
    p0 = f32[8,8] parameter(0)
    p1 = f32[] parameter(1)
    all = f32[8,8] broadcast(p1)
    add.1 = f32[8,8] add(p0, all)
"""
CALL = """
    main
    w = f32[8,8] parameter(0) named=w
    adj = f32[8,8] parameter(1) named=adj
    call.1 = f32[8,8] call(adj) calls=parallel
    while.1 = f32[8,8] while(adj) calls=body trips=3
    call.2 = f32[8,8] call(w) calls=parallel

    parallel
    p0 = f32[8,8] parameter(0)
    tanh.1 = f32[8,8] tanh(p0)

    body
    p0 = f32[8,8] parameter(0)
    exp.1 = f32[8,8] exponential(p0)
"""
PAIRS = """
    main
    x = f32[8,3] parameter(0) named=x
    fusion.1 = f32[8,8,3] fusion(x) calls=differences

    differences
    p0 = f32[8,3] parameter(0)
    rows = f32[8,8,3] broadcast(p0) dimensions=0,2
    columns = f32[8,8,3] broadcast(p0) dimensions=1,2
    sub.1 = f32[8,8,3] subtract(rows, columns)
"""


def arguments(text):
    found = argument_uses(read_module(hlo_proto(text)))
    return {name: use.arguments for name, use in found.items()}


def pairs(text):
    found = argument_uses(read_module(hlo_proto(text)))
    return {name for name, use in found.items() if use.compares_pairs}


def test_the_arguments_that_a_result_depends_on():
    assert arguments(NORMALISED) == {"loops.1": ("adj",), "dot.1": ("params['w']", "adj")}


MULTIPLIED = """
    main
    adj = f32[512,512] parameter(0) named=adj
    hidden = f32[512,256] parameter(1) named=hidden
    small = f32[64,64] parameter(2) named=small
    turned.1 = f32[512,512] transpose(adj)
    dot.1 = f32[512,256] dot(turned.1, hidden)
    scaled.1 = f32[512,512] add(adj, adj)
    dot.2 = f32[512,512] dot(scaled.1, scaled.1)
    dot.3 = f32[64,64] dot(small, small)
    fusion.1 = f32[512,512] fusion(scaled.1, adj) calls=product
    call.1 = f32[512,512] call(adj) calls=parallel
    library.1 = f32[512,512] custom-call(adj) target=__onednn$matmul
    other.1 = f32[512,512] custom-call(adj) target=TopK
    moved.1 = f32[512,512] fusion(adj) calls=moving
    dot.5 = f32[512,512] dot(moved.1, scaled.1)

    product
    p0 = f32[512,512] parameter(0)
    p1 = f32[512,512] parameter(1)
    inner.1 = f32[512,512] dot(p0, p1)

    parallel
    q0 = f32[512,512] parameter(0)
    dot.4 = f32[512,512] dot(q0, q0)

    moving
    m0 = f32[512,512] parameter(0)
    copy.1 = f32[512,512] copy(m0)
"""


# As the gradient of squared distances: one fusion makes them, and others add them up.
DISTANCES = """
    main
    a = f32[64,32] parameter(0) named=a
    b = f32[48,32] parameter(1) named=b
    g = f32[64,48] parameter(2) named=g
    fusion.1 = f32[64,48,32] fusion(a, b, g) calls=gradient
    fusion.2 = f32[64,32] fusion(fusion.1) calls=adding
    dot.1 = f32[64,48] dot(a, b)

    gradient
    p0 = f32[64,32] parameter(0)
    p1 = f32[48,32] parameter(1)
    p2 = f32[64,48] parameter(2)
    rows = f32[64,48,32] broadcast(p0) dimensions=0,2
    columns = f32[64,48,32] broadcast(p1) dimensions=1,2
    sub.1 = f32[64,48,32] subtract(rows, columns)
    scale = f32[64,48,32] broadcast(p2) dimensions=0,1
    mul.1 = f32[64,48,32] multiply(sub.1, scale)

    adding
    q0 = f32[64,48,32] parameter(0)
    add.1 = f32[64,32] reduce(q0)
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", {"fusion.1": 2, "fusion.2": 2}),
        ("multiply(sub.1", "add(sub.1", {"fusion.1": 1}),
        ("subtract(", "add(", {"fusion.1": 1}),
        (",32]", ",3]", {"fusion.1": 1}),
    ],
)
def test_distances_of_all_pairs_by_their_differences(old, new, expected):
    text = DISTANCES.replace(old, new) if old else DISTANCES
    uses = argument_uses(read_module(hlo_proto(text))).items()
    assert {name: use.compares_pairs for name, use in uses if use.compares_pairs} == expected


def test_large_arguments_that_products_multiply_as_they_are():
    found = argument_uses(read_module(hlo_proto(MULTIPLIED)))
    factors = {name: use.factors for name, use in found.items() if use.factors}
    products = ("dot.4", "dot.5", "fusion.1", "library.1")
    assert factors == {"dot.1": ("adj", "hidden"), **dict.fromkeys(products, ("adj",))}


def test_what_is_called_or_repeated_depends_on_what_is_passed():
    found = arguments(CALL)
    assert found["call.1"] == found["while.1"] == found["exp.1"] == ("adj",)
    assert found["call.2"] == ("w",)


@pytest.mark.parametrize(
    "changing",
    [
        "random = f32[8,8] rng-bit-generator(adj)",
        "random = f32[8,8] custom-call(adj) target=xla_ffi_python_cpu_callback",
    ],
)
def test_random_numbers_and_calls_into_python_are_no_function_of_arguments(changing):
    text = f"""
    main
    adj = f32[8,8] parameter(0) named=adj
    {changing}
    add.1 = f32[8,8] add(adj, random)
"""
    assert arguments(text) == {}


def test_arguments_without_a_name_are_unknown():
    assert arguments(NORMALISED.replace(" named=adj", "")) == {}


def test_what_the_compiler_adds_and_what_reads_no_argument_is_left_out():
    text = """
    main
    adj = f32[8,8] parameter(0) named=adj
    one = f32[] constant(1)
    copy.1 = f32[8,8] copy(adj)
    ones.1 = f32[8,8] broadcast(one)
    add.1 = f32[8,8] add(copy.1, ones.1)
"""
    assert arguments(text) == {"add.1": ("adj",)}


def test_two_arrays_that_are_each_repeated_for_the_other():
    assert pairs(PAIRS) == {"fusion.1"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dimensions=1,2", "dimensions=0,2"),
        ("subtract(rows, columns)", "subtract(rows, rows)"),
        ("f32", "u32"),
    ],
)
def test_arrays_that_are_repeated_alike_and_bits_of_random_numbers_are_no_pairs(old, new):
    assert pairs(PAIRS.replace(old, new)) == set()


def test_slices_of_the_work_are_in_the_table():
    ran = [event("loops.1", 0, 5, hlo_op="loops.1", program_id=7)]
    space = xspace(host(line("tf_XLAEigen/9", *ran)))
    table = (trace := read(source_of(space + metadata_plane(compiled(NORMALISED))))).argument_uses
    assert table.slice.tolist() == [0]
    assert trace.string(int(table.arguments[0])) == "adj"
