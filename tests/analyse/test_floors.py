"""The least that operations take."""

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.run.floors import operations_floor_ns
from stepwhy.trace.notation import parse

STEPS = """
unit: 1 ms
framework: pytorch
main   step    |[--------][--------][--------]|
CPU:0  kernel  |aaaabb    aabbbb    aaaabb    |  a=aten::mm  b=aten::add
"""


def test_each_operation_takes_as_long_as_in_its_shortest_step():
    # The mean step computes for 6 ms; multiplications take 2 ms at least, additions 2 ms.
    assert operations_floor_ns(Facts(parse(STEPS))) == 4_000_000


def test_two_steps_do_not_show_a_floor():
    timeline = STEPS.replace("[--------][--------][--------]", "[--------][--------]          ")
    assert operations_floor_ns(Facts(parse(timeline))) is None


def test_operations_that_are_missing_in_some_steps_show_no_floor():
    other = STEPS.replace("aaaabb    aabbbb    aaaabb", "aaaa      bbbb      aaaabb")
    assert operations_floor_ns(Facts(parse(other))) is None
