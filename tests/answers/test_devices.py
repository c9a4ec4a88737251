"""Devices of an observed run, on the time scale of its unprofiled steps."""

from stepwhy.analyse.answers.devices import devices_of
from stepwhy.analyse.answers.parallel import parallel_use
from stepwhy.analyse.facts import Facts
from stepwhy.trace.notation import parse

MS = 1_000_000
# Traced steps take 20 ms, the others 10.
SLOWED = """
unit: 1 ms
framework: tensorflow
signals: +step-log
main   step   |[------------------][------------------]|
CPU:0  kernel |mmmmmmmmmmmmmmmmmm  mmmmmmmmmmmmmmmmmm  |  m=MatMul
CPU:1  kernel |rrrrrrrrr           rrrrrrrrr           |  r=Relu
marks: start_ns | dur_ns | profiled
0 ms | 20 ms | 1
20 ms | 20 ms | 1
40 ms | 10 ms | 0
50 ms | 10 ms | 0
60 ms | 10 ms | 0
70 ms | 10 ms | 0
80 ms | 10 ms | 0
"""


def test_no_device_works_for_longer_than_the_step():
    facts = Facts(parse(SLOWED))
    first, second = devices_of(facts)
    assert facts.wall_ns == 10 * MS
    assert first.busy_ns == first.compute_ns == first.breakdown["compute"] <= 10 * MS
    assert second.compute_ns == second.breakdown["compute"]
    assert first.busy_fraction == first.busy_ns / facts.wall_ns
    use = parallel_use([first, second], facts.wall_ns)
    assert use.communication_efficiency <= 1
