"""Instructions of compiled programs whose results only one side of a selection reads."""

import random

import pytest
from tests.read.hlo_samples import hlo_proto
from tests.read.test_xplane_rewrites import compiled
from tests.read.xplane_samples import event, host, line, metadata_plane, source_of, xspace

from stepwhy.read.formats.xplane.discards import Discard, discards_of
from stepwhy.read.formats.xplane.hlo import read_module
from stepwhy.read.formats.xplane.reader import read
from stepwhy.read.formats.xplane.unneeded import unneeded_of
from stepwhy.read.shared.tensorflow.messages import message_class

# As `jnp.where(step % 50 == 0, tanh(x @ x), x)`: the remainder of a negative number gets 50 added.
EVERY_50 = """
    main
    step.1 = s32[] parameter(0)
    x = f32[8,8] parameter(1)
    dot.1 = f32[8,8] dot(x, x)
    tanh.1 = f32[8,8] fusion(dot.1) calls=activation
    chosen = f32[8,8] fusion(step.1, tanh.1, x) calls=selection

    activation
    p0 = f32[8,8] parameter(0)
    tanh.2 = f32[8,8] tanh(p0)

    selection
    p0 = s32[] parameter(0)
    p1 = f32[8,8] parameter(1)
    p2 = f32[8,8] parameter(2)
    every = s32[] constant(50)
    zero = s32[] constant(0)
    rest = s32[] remainder(p0, every)
    negative = pred[] compare(rest, zero) direction=LT
    more = s32[] add(rest, every)
    modulo = s32[] select(negative, more, rest)
    due = pred[] compare(modulo, zero) direction=EQ
    all = pred[8,8] broadcast(due)
    select.1 = f32[8,8] select(all, p1, p2)
"""
FLAG = """
    main
    flag.1 = pred[] parameter(0)
    x = f32[8,8] parameter(1)
    dot.1 = f32[8,8] dot(x, x)
    dot.2 = f32[8,8] dot(dot.1, x)
    select.1 = f32[8,8] select(flag.1, x, dot.2)
"""
LOOP = """
    main
    flag.1 = pred[] parameter(0)
    x = f32[8,8] parameter(1)
    state = tuple tuple(x, x)
    while.1 = tuple while(state) calls=body trips=3
    last = f32[8,8] get-tuple-element(while.1) index=0
    select.1 = f32[8,8] select(flag.1, last, x)

    body
    state = tuple parameter(0)
    x = f32[8,8] get-tuple-element(state) index=0
    dot.7 = f32[8,8] dot(x, x)
    next = tuple tuple(dot.7, dot.7)
"""
COMPUTED = FLAG.replace(
    "flag.1 = pred[] parameter(0)", "loss = f32[] parameter(0)\n    flag.1 = pred[] is-finite(loss)"
)
# The gradients of both sides: of the one that is not taken they are zero, with what they come to.
GRADIENTS = """
    main
    level = f32[] parameter(0)
    x = f32[8,8] parameter(1)
    limit = f32[] constant(2)
    zero = f32[] constant(0)
    zeros = f32[8,8] broadcast(zero)
    above = pred[] compare(level, limit) direction=GT
    all = pred[8,8] broadcast(above)
    dot.1 = f32[8,8] dot(x, x)
    dot.2 = f32[8,8] dot(x, dot.1)
    chosen = f32[8,8] select(all, dot.1, dot.2)
    of_first = f32[8,8] fusion(level, chosen) calls=first_side
    of_second = f32[8,8] select(all, zeros, chosen)
    dot.3 = f32[8,8] dot(dot.1, of_first)
    dot.4 = f32[8,8] dot(dot.2, of_second)
    dot.5 = f32[8,8] dot(x, dot.4)
    sum = f32[8,8] add(dot.3, dot.5)

    first_side
    p0 = f32[] parameter(0)
    p1 = f32[8,8] parameter(1)
    limit = f32[] constant(2)
    zero = f32[] constant(0)
    zeros = f32[8,8] broadcast(zero)
    above = pred[] compare(p0, limit) direction=GT
    all = pred[8,8] broadcast(above)
    select.9 = f32[8,8] select(all, p1, zeros)
"""
DUE = Discard("step % 50 == 0", True, 50)
UNSET = Discard("flag", False, 0)


def discards(text):
    found = discards_of(read_module(hlo_proto(text)))
    return {name: why for name, why in found.items() if "." in name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EVERY_50, {"dot.1": DUE, "tanh.1": DUE}),
        (FLAG, {"dot.1": UNSET, "dot.2": UNSET}),
        (COMPUTED, dict.fromkeys(["dot.1", "dot.2"], Discard("is-finite of loss", False, 0))),
        (
            GRADIENTS,
            {
                "dot.3": Discard("level > 2", True, 0),
                **dict.fromkeys(["dot.2", "dot.4", "dot.5"], Discard("level > 2", False, 0)),
            },
        ),
        (LOOP, dict.fromkeys(["while.1", "dot.7"], UNSET._replace(holds=True))),
    ],
)
def test_a_result_that_one_side_reads(text, expected):
    assert discards(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        FLAG.replace("pred[] parameter(0)", "pred[8,8] parameter(0)"),
        FLAG.replace("x, dot.2)", "dot.2, dot.2)"),
        FLAG + "    both = tuple tuple(select.1, dot.1, dot.2)\n",
    ],
    ids=["by element", "on both sides", "is a result as well"],
)  # fmt: skip
def test_other_selections_discard_nothing(text):
    assert discards(text) == {}


def test_slices_of_the_work_are_in_the_table():
    ran = [event(name, 10 * i, 5, hlo_op=name, program_id=7)
           for i, name in enumerate(("dot.1", "chosen", "tanh.1"))]  # fmt: skip
    space = xspace(host(line("tf_XLAEigen/9", *ran)))
    table = (trace := read(source_of(space + metadata_plane(compiled(EVERY_50))))).discards
    assert table.slice.tolist() == [0, 2]
    assert {trace.string(c) for c in table.condition.tolist()} == {"step % 50 == 0"}
    assert (table.holds.tolist(), table.one_in.tolist()) == ([1, 1], [50, 50])


def changed(message, chance):
    """Change an instruction as damage does, such as in the number of its operands."""
    instruction = chance.choice(list(chance.choice(message.hlo_module.computations).instructions))
    match chance.randrange(5):
        case 0:
            del instruction.operand_ids[chance.randrange(2) :]
        case 1:
            instruction.operand_ids.append(1)
        case 2:
            del instruction.called_computation_ids[:]
        case 3:
            instruction.parameter_number = chance.choice([-1, 7, 2**40])
        case _:
            instruction.opcode = chance.choice(
                [b"select", b"fusion", b"dot", b"parameter", b"\xff"]
            )


@pytest.mark.parametrize("text", [EVERY_50, FLAG, LOOP], ids=["remainder", "flag", "loop"])
def test_a_damaged_program_is_told_as_one(text):
    chance = random.Random(1)  # noqa: S311 - the same damage every time, no secret
    found = []
    for _ in range(300):
        message = message_class("HloProto").FromString(hlo_proto(text))
        for _ in range(chance.choice([1, 1, 3])):
            changed(message, chance)
        found.append(unneeded_of(message.SerializeToString(), "step"))
    assert None in found
    assert len([one for one in found if one is not None]) > 30
