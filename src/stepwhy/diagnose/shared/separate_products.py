"""Layers that a loop of a PyTorch program runs for a few rows each time."""

from __future__ import annotations

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving

_TITLE = "Run the layer once for all time steps: none of its runs needs another one"
_PRODUCTS = regex(r"mm\b|linear|[mM]mBackward|matmul")
_WORK = ("compute", "dispatch", "python")


def separate_products(rule: Rule, facts: Facts, fix: Fix, least: float, sure: float) -> Finding:
    """The finding about layers whose runs in a step do not need each other.

    Args:
        rule: The rule.
        facts: Facts of a run of PyTorch.
        fix: What to do.
        least: Share of the step from which the finding is made.
        sure: Share of the cost that is saved at least.
    """
    events, lines = facts.trace.events, facts.derived(line_breakdown)
    noted = rows_of_kinds(facts.trace, "separate-products").tolist()
    if not noted or lines is None:
        return rule.not_applicable("No layer was seen to run separately for rows of a step.")
    runs = {facts.trace.string(int(events.source[row])): int(events.count[row]) for row in noted}
    times_ns = {}
    for row in lines.lines:
        if row.line in runs:
            known_ns = sum(one.time_ns for one in row.operations)
            products_ns = sum(o.time_ns for o in row.operations if _PRODUCTS.search(o.name))
            whole_ns = sum(row.categories.get(name, 0) for name in _WORK)
            times_ns[row.line] = round(whole_ns * products_ns / max(known_ns, 1))
    cost = sum(times_ns.values())
    evidence = (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
        *(Evidence("time at the line", ns, "ns", line) for line, ns in times_ns.items()),
        *(Evidence("runs of the layer per step", runs[line], "count", line) for line in times_ns),
    )
    if cost < least * facts.wall_ns:
        return rule.nothing(evidence[:1])
    gain = saving("one run of the layer", sure * cost, cost)
    edit = Edit("ops", "replaced")
    return rule.finding(cost, evidence, fix, gain, edit, title=_TITLE)
