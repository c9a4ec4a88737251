"""Variables are on a different device than their readers, and are copied in every step.

## What it means
A variable is placed on a parameter host or on the CPU, and the operations that use it run
elsewhere. In every step its whole value is copied to each of their devices, and its gradient back.

## Why it costs
The traffic grows with the size of the variables and with the number of devices, not with the
batch. Large dense layers and embedding tables take longer to copy than to compute.

## How it is measured
Copies whose source is a variable or its read, and copies of gradients of the same size to the
device of such a variable: their number, bytes and receivers, per variable. The cost is the time in
which they run while no device computes.

## Fix
Keep each variable on the device that reads it. Towers that share variables can mirror them and
exchange only gradients. Gather rows of an embedding table on its own device, so that only those
rows are copied.

## Fix risk
None for the result. Mirrors take memory on every device.

## When it abstains
Without a record of the placement and its copies. Does not apply if everything runs on one device.
"""

from __future__ import annotations

from collections import defaultdict

from stepwhy.analyse.program.placement import CopyTotals, DeviceCopy, copy_totals, device_copies
from stepwhy.diagnose.shared.placement import (
    exposed_copies_ns,
    listed,
    variable_copies,
    variable_of,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule

RULE = Rule(
    __name__,
    name="Variables copied between devices",
    found="Keep variables on the devices that read them",
    clear="Variables are on the devices that read them, or small",
    needs=(("placement",),),
    refines="exposed-transfer",
    least_share=0.05,  # of the step; less is the price of any shared parameter
    least_saved=0.3,  # of the cost; mirrors still exchange their gradients
    change="keep variables where they are read",
)

LEAST_BYTES = (
    1_048_576  # bytes per step; less takes too little time to be worth changing the placement
)
MANY_COPIES = 100  # per step; so many small copies cost latency
FEWER = 2.0  # times fewer bytes: gradients, which are as large as their variables, still cross


def diagnose(facts: Facts) -> Finding:
    """Judge the copies of variables and of their gradients."""
    every = device_copies(facts)
    if not every:
        return RULE.not_applicable("There are no copies between devices.")
    chosen = variable_copies(facts, every)
    if not chosen:
        return RULE.nothing()
    totals = copy_totals(facts, chosen)
    evidence = _evidence(facts, chosen, totals)
    is_much = (totals.bytes or 0) >= LEAST_BYTES or totals.count >= MANY_COPIES
    cost = exposed_copies_ns(facts, chosen)
    edit = Edit("copies", "faster", "peer", factor=FEWER, cost_ns=cost)
    return RULE.judge(
        facts, cost or 0, evidence, RULE.fix(), shown=2, unless=not is_much, edit=edit
    )


def _evidence(facts: Facts, chosen: list[DeviceCopy], totals: CopyTotals) -> tuple[Evidence, ...]:
    by_variable: dict[str, list[DeviceCopy]] = defaultdict(list)
    for copy in chosen:
        by_variable[variable_of(facts, copy)].append(copy)
    gradients = by_variable.pop("", [])
    found = [Evidence("copies of variables and their gradients per step", totals.count, "count")]
    if totals.bytes is not None:
        found.append(Evidence("copied for them per step", totals.bytes, "bytes"))
    values = [copy for group in by_variable.values() for copy in group]
    found.append(Evidence("device of the variables", listed(c.sender for c in values), ""))
    found.append(Evidence("devices that read them", listed(c.receiver for c in values), ""))
    sizes = {name: copy_totals(facts, group) for name, group in by_variable.items()}
    heaviest = sorted(sizes, key=lambda name: -(sizes[name].bytes or 0))
    found.extend(
        Evidence(f"copied of {name} per step", size, "bytes", _copies(sizes[name]))
        for name in heaviest[:4]
        if (size := sizes[name].bytes) is not None
    )
    back = copy_totals(facts, gradients)
    if back.bytes is not None:
        found.append(Evidence("copied for gradients per step", back.bytes, "bytes", _copies(back)))
    return tuple(found)


def _copies(totals: CopyTotals) -> str:
    number = f"{totals.count:.3g}"
    return f"{number} {'copy' if number == '1' else 'copies'}"
