"""No diagnosis fails on a random trace, and no cost exceeds the step."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose import run_all
from stepwhy.trace.notation import parse

ROWS = (
    "main step",
    "main input",
    "main op",
    "main launch",
    "main runtime",
    "main sync",
    "main python",
    "main compile",
    "other op",
    "GPU:0 kernel",
    "GPU:0 memcpy",
    "GPU:1/3 collective",
    "CPU:0 kernel",
    "CPU:0/1 wait",
    "/job:ps/task:0 CPU:0 kernel",
)
LEGEND = "a=cudaMalloc  b=MatMul {scope: tower_0/MatMul; source: a.py(1): f}  c=Conv2D {bytes: 9}"
PLACEMENT = """
nodes: name | op | requested | actual | outer | scope_line
tower_0/MatMul | MatMul | GPU:0 | CPU:0 | GPU:1 | a.py(1)
tower_1/Conv2D | Conv2D | GPU:1 | {second} | - | -

copies: source | target | from_device | to_device | bytes | dur_ns
tower_0/MatMul | tower_1/Conv2D | CPU:0 | GPU:1 | {size} | {size}
"""

cells = st.text("abc.. ", min_size=1, max_size=30)
timelines = st.lists(st.tuples(st.sampled_from(ROWS), cells), max_size=8)
heads = st.sampled_from(
    ["", "framework: pytorch\n", "framework: tensorflow\n", "signals: memory\n"]
)
placements = st.sampled_from(
    ["", PLACEMENT.format(second="-", size="-"), PLACEMENT.format(second="CPU:0", size="7")]
)


@settings(max_examples=150, deadline=None)
@given(heads, st.sampled_from(["1 us", "1 ms", "20 ms"]), timelines, placements)
def test_no_diagnosis_fails(head, unit, timeline, placement):
    rows = "".join(f"{row} |{text}|  {LEGEND}\n" for row, text in timeline)
    facts = Facts(parse(f"{head}unit: {unit}\n{rows}{placement}"))
    for finding in run_all(facts):
        assert finding.verdict != "error", finding.reason
        assert 0 <= (finding.cost_ns_per_step or 0) <= facts.wall_ns
