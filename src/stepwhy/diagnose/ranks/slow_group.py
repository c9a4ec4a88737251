"""One process group moves its data more slowly than other groups do with the same bytes.

## What it means
Groups of the same size exchange the same bytes, such as the pairs of tensor parallelism, and one of
them takes longer in nearly all steps: a link, a port or a GPU of its ranks is slow.

## Why it costs
Its ranks are late in whatever comes next, so that all others wait for them.

## How it is measured
From the collectives of all ranks. The shortest duration of a collective among its ranks is the time
in which data moves: the rank that arrives last waits for no other. These times are summed per step
and compared with the median of the other groups with the same operation, purpose, size and bytes. A
group is slow in a step if it takes 30 % longer; it is a finding if it is slow in more steps than
chance explains (1 %, binomial test, corrected for the number of groups), and costs 10 % of the
step. The evidence names the bus bandwidth as nccl-tests define it: bytes per second, times
2 (n - 1) / n for an all-reduce among n ranks, and (n - 1) / n for the others. No clocks are
compared.

## Fix
Compare the links of these ranks with those of the others, and replace or avoid the slow one.

## Fix risk
None.

## When it abstains
If only one rank is recorded, if the trace does not record process groups and the bytes that they
exchange, or if no two groups of the same size exchange the same bytes. Broadcasts, sending and
receiving do not show how long data moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stepwhy.analyse.lateness.late_ranks import lateness_of, ledger_of
from stepwhy.analyse.lateness.slow_groups import SlowGroup, comparable_groups
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule

RULE = Rule(
    __name__,
    name="A process group that is slower than others",
    found="Repair the slow link of this process group",
    clear="Groups that exchange the same bytes take equally long",
    of_ranks=True,
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; the group may also be slow because of where its ranks are
    change="move data as fast as the other groups",
)


def diagnose(facts: Facts) -> Finding:
    """Judge the group whose transfers take longest in comparison with its like."""
    ledger = facts.derived(ledger_of)
    if ledger is None or not comparable_groups(ledger):
        return RULE.no_data(
            "process-groups",
            "No two process groups are known to exchange the same bytes among all of their ranks.",
        )
    groups = [group for one in facts.derived(lateness_of) for group in one.slow]
    worst = max(groups, key=lambda group: group.cost_ns, default=None)
    cost = 0 if worst is None else on_scale(facts, worst.cost_ns)
    if worst is None or cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing()
    evidence = [fact for group in groups for fact in _evidence(group)]
    models = [facts.trace.string(int(model)) for model in facts.trace.devices.model]
    on_nvidia = any("nvidia" in model.lower() for model in models)
    fix = RULE.fix()
    if on_nvidia:
        fix = replace(fix, text=f"{fix.text} {_NVIDIA}")
    return RULE.finding(cost, tuple(evidence), fix)


def _evidence(group: SlowGroup) -> Iterator[Evidence]:
    where = f"of {group.groups} groups {group.role.description}".rstrip()
    yield Evidence("ranks of the slow group", ", ".join(map(str, group.ranks)), "", where)
    yield Evidence("time in which its data moves", group.transfer_ns, "ns", group.role.operation)
    yield Evidence("the same in the other groups, median", group.usual_ns, "ns")
    if group.bus_bandwidth is not None and group.usual_bandwidth is not None:
        yield Evidence("bus bandwidth as in nccl-tests, per second", group.bus_bandwidth, "bytes")
        yield Evidence("bus bandwidth of the other groups", group.usual_bandwidth, "bytes")
    yield Evidence("size of its messages in a step", group.bytes, "bytes")
    yield Evidence("steps in which it is slow", group.slow_steps, "count", f"of {group.steps}")


_NVIDIA = (
    "'nvidia-smi topo -m' shows the connections, 'nvidia-smi nvlink --errorcounters' links with "
    "errors, NCCL_DEBUG=INFO the transport; nccl-tests measures a group without the training."
)
