"""Examples per step: known only where each step is one batch."""

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_size import examples_per_step
from stepwhy.trace.notation import parse

STEPS = """
unit: 1 ms
framework: pytorch
main   step   |{steps}|
main   input  |{input}|  d=DataLoader.__next__
CPU:0  kernel |{work}|  k=mm

events: kind | start_ns | dur_ns | name   | reason | source | count
batch        | 0 ms     | 0 ms   | {name} |        |        | 32
"""


def examples(fetches, name="Images"):
    text = STEPS.format(steps="[--------]" * 4, input=fetches * 4, work="       kk " * 4, name=name)
    return examples_per_step(Facts(parse(text)))


@pytest.mark.parametrize(
    ("fetches", "expected"),
    [(" [d]      ", 32), (" [d][d]   ", None), ("          ", 32)],
)
def test_a_step_with_several_batches_has_no_known_number(fetches, expected):
    assert examples(fetches) == expected


def test_a_step_of_fit_is_one_batch():
    assert examples(" [d][d]   ", name="fit") == 32
