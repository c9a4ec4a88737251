"""What a line consists of that takes most of the step, by module of the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.analyse.lines.line_shares import Part, module_shares
from stepwhy.analyse.lines.slice_modules import slice_modules
from stepwhy.base.patterns import regex
from stepwhy.result import LineModule, LineOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lines.line_shares import Owner

MOST = 0.8
"""Share of the step from which a line says too little without what it runs."""

_APART = 12  # of more modules, those that differ by a number only are added up
_LISTED = 60  # modules
_OPERATIONS = 5  # of a module
_DIGITS = regex(r"\d+")


def line_modules(facts: Facts, line: str, categories: Mapping[str, int]) -> tuple[LineModule, ...]:
    """A line by module, which sums to its time; empty if the trace names no module in it.

    Args:
        facts: Facts of the run.
        line: The line.
        categories: Its time by category, ns.
    """
    modules = facts.derived(slice_modules)
    if modules is None:
        return ()
    times: Counter[Part] = Counter()
    counts: Counter[Part] = Counter()
    by_category: Counter[tuple[int, str]] = Counter()
    for category, total_ns in categories.items():
        recorded, runs = module_shares(facts, category, line, modules)
        whole = sum(recorded.values())
        for part, ns in recorded.items():
            times[part] += int(total_ns * ns / whole)
            by_category[part.module, category] += int(total_ns * ns / whole)
        counts.update(runs)
    names = _names({part.module: modules.paths[part.module] for part in times})
    of_names: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (module, category), ns in by_category.items():
        of_names[names[module]][category] += ns
    found = _listed(facts, times, counts, names, sum(categories.values()))
    return tuple(replace(one, categories=dict(of_names[one.module])) for one in found)


def _listed(
    facts: Facts,
    times: Counter[Part],
    counts: Mapping[Part, int],
    names: Mapping[int, str],
    total_ns: int,
) -> tuple[LineModule, ...]:
    by_name: defaultdict[str, Counter[Owner]] = defaultdict(Counter)
    runs: defaultdict[str, Counter[Owner]] = defaultdict(Counter)
    for part, ns in times.items():
        by_name[names[part.module]][part.owner] += ns
        runs[names[part.module]][part.owner] += counts[part]
    named = sorted(filter(None, by_name), key=lambda name: (-by_name[name].total(), name))
    if not named:
        return ()
    steps = max(facts.steady_count, 1)
    found = [_module(name, by_name[name], runs[name], steps) for name in named[:_LISTED]]
    rest_ns = total_ns - sum(one.time_ns for one in found)
    if "" in by_name or len(named) > _LISTED:
        rest = _module("", by_name[""], runs[""], steps)
        found.append(replace(rest, time_ns=rest_ns))
    else:  # which rounding leaves
        found[0] = replace(found[0], time_ns=found[0].time_ns + rest_ns)
    return tuple(sorted(found, key=lambda one: (-one.time_ns, one.module)))


def _names(paths: dict[int, str]) -> dict[int, str]:
    """The name of each module: its path, without numbers if there are too many modules."""
    if len(set(paths.values())) <= _APART:
        return paths
    return {number: _DIGITS.sub("*", path) for number, path in paths.items()}


def _module(name: str, times: Counter[Owner], runs: Mapping[Owner, int], steps: int) -> LineModule:
    named = {owner: ns for owner, ns in times.items() if owner.operation and ns}
    longest = sorted(named.items(), key=lambda item: (-item[1], item[0]))[:_OPERATIONS]
    return LineModule(
        name,
        times.total(),
        tuple(
            LineOperation(owner.operation, owner.phase.name.lower(), runs[owner] / steps, ns)
            for owner, ns in longest
        ),
    )
