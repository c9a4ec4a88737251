"""Diagnoses: one module per failing pattern, which turns the facts of a run into a finding.

In: `Facts`. Out: findings, ranked; each with a verdict, and with a cost, evidence and a fix if it
is found. A diagnosis is one module in the folder of its family, its advice in Markdown beside it, a
literate test and a line in the table below; no diagnosis imports another. `shared.rule` says what
it must have.
Imports: `analyse` and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from msgspec.structs import replace

from stepwhy.diagnose.hot_line import unless_explained
from stepwhy.diagnose.ranks.exposed_communication import without_waits
from stepwhy.diagnose.ranks.late_arrival import is_of_late_rank
from stepwhy.diagnose.ranks.straggler import symptoms
from stepwhy.diagnose.shared.causes import explains, with_causes
from stepwhy.diagnose.shared.program import is_training
from stepwhy.diagnose.shared.rule import (
    SHARE_BEYOND_MEDIAN,
    SHARE_OF_RUN,
    SHARE_OF_TRAINING,
    Diagnosis,
    Facts,
    Finding,
    Rule,
    examine,
)
from stepwhy.diagnose.shared.waits import unless_waiting

_FAMILIES: dict[str, tuple[str, ...]] = {
    "input": (
        "input_bound",
        "storage_wait",
        "serial_input",
        "worker_respawn",
        "iterator_rebuild",
        "python_preprocessing",
        "queue_starvation",
        "repeated_preprocessing",
        "feed_dict_copy",
    ),
    "host": (
        "launch_bound",
        "host_sync",
        "graph_growth",
        "step_growth",
        "recompilation",
        "checkpoint_stall",
        "frequent_evaluation",
        "python_overhead",
        "cpu_oversubscription",
        "idle_cores",
        "host_callback",
        "debug_settings",
        "eager_loop",
        "gc_pause",
        "logging_stall",
        "large_fetch",
        "session_overhead",
        "session_rebuild",
        "graph_loop",
        "repeated_computation",
    ),
    "placement": (
        "misplaced_op",
        "single_device_towers",
        "unfetched_tower",
        "soft_placement_fallback",
        "idle_accelerator",
        "uncolocated_gradients",
        "variable_traffic",
    ),
    "transfer": ("pageable_copy", "exposed_transfer", "slow_link"),
    "compute": (
        "unfused_batch_norm",
        "unfavourable_layout",
        "unfavourable_shape",
        "full_precision_matmul",
        "double_precision",
        "unfused_attention",
        "unfused_pattern",
        "redundant_cast",
        "unfused_optimizer",
        "dense_embedding_gradient",
        "one_hot_product",
        "mostly_zero_operand",
        "subnormal_numbers",
        "dominant_op",
        "small_batch",
    ),
    "memory": (
        "allocator_pressure",
        "page_faults",
        "memory_growth",
        "memory_headroom",
        "unused_graph",
    ),
    "ranks": (
        "hung_collective",
        "mismatched_collective",
        "late_arrival",
        "straggler",
        "start_skew",
        "sequence_imbalance",
        "slow_group",
        "pipeline_bubble",
        "stage_imbalance",
        "redundant_gradient_sync",
        "small_collectives",
        "exposed_communication",
    ),
    "not_needed": (
        "unused_gradient",
        "recomputed_forward",
        "double_backward",
        "padding",
        "constant_computation",
        "whole_buffer_copy",
        "dense_update",
        "discarded_result",
    ),
    "any": ("hot_line",),
    "measurement": (
        "slow_startup",
        "noisy_steps",
        "profiler_perturbation",
        "warmup_included",
        "wall_device_gap",
    ),
}
"""Modules of each family, in the order of the documentation; the one of `any` has no folder."""

TABLE: tuple[str, ...] = tuple(name for names in _FAMILIES.values() for name in names)
"""Modules of all diagnoses, in the order of the documentation."""

_HOMES = {
    name: f"{__name__}.{name}" if family == "any" else f"{__name__}.{family}.{name}"
    for family, names in _FAMILIES.items()
    for name in names
}
_MOST = 0.5  # of the run
_VERDICTS = ("found", "error", "incomplete", "clear", "no_data", "not_applicable")


def load(name: str) -> Diagnosis:
    """Import the module of a diagnosis.

    Args:
        name: An entry of `TABLE`.
    """
    return cast("Diagnosis", import_module(_HOMES[name]))


def run_all(facts: Facts, table: Sequence[str] = TABLE) -> tuple[Finding, ...]:
    """Run every diagnosis and rank their findings. Never raises.

    Args:
        facts: Facts of the run.
        table: The diagnoses to run.
    """
    findings = [examine(load(name), facts) for name in table]
    changes = any(f.fix is not None and f.fix.risk == "changes-numerics" for f in findings)
    if changes and is_training(facts) is False:
        # There are no losses to compare.
        findings = [
            replace(f, fix=replace(f.fix, compare="outputs")) if f.fix else f for f in findings
        ]
    explained = with_causes(facts, findings, _rules(table))
    return rank(unless_explained(facts, explained, _families(table)), table)


def run_across(facts: Facts, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of one rank, with those that compare it with the other ranks. Never raises.

    Args:
        facts: Facts of the rank, with all ranks in `Facts.ranks`.
        findings: What `run_all` found in the rank alone.
    """
    modules = [load(name) for name in TABLE]
    compared = {m.RULE.id: examine(m, facts) for m in modules if m.RULE.of_ranks or m.RULE.of_calls}
    causes = rank([f for f in compared.values() if f.verdict == "found"])
    compared = {f.id: f for f in unless_waiting(facts, list(compared.values()))}
    merged = [
        without_waits(f, facts, causes) if f.id == "exposed-communication" else f
        for f in (compared.get(f.id, f) for f in findings)
    ]
    explained = with_causes(facts, merged, _rules(TABLE))
    explained = _of_straggler(facts, compared["straggler"], explained)
    explained = _with_lines(facts, explained)
    return rank(unless_explained(facts, explained, _families(TABLE)))


def _of_straggler(facts: Facts, late: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """The findings; those that show what only the late rank does are explained by it."""
    shown = symptoms(facts) if late.verdict == "found" else frozenset()
    return [
        replace(f, explained_by=late.id, hidden=False)
        if f.id in shown and (f.cost_ns_per_step is None or explains(late, f))
        else f
        for f in findings
    ]


def _with_lines(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings; a rank that is late in long steps gets the lines that only these run."""
    noisy = next((f for f in findings if f.id == "noisy-steps"), None)
    if noisy is None or noisy.explained_by != "late-arrival" or not is_of_late_rank(facts):
        return list(findings)
    lines = tuple(e for e in noisy.evidence if e.where and e.unit == "fraction")
    return [
        replace(f, evidence=(*f.evidence, *lines)) if f.id == "late-arrival" else f
        for f in findings
    ]


def rank(findings: Sequence[Finding], table: Sequence[str] = TABLE) -> tuple[Finding, ...]:
    """Sort findings: found ones by decreasing gain, then found ones without a cost, then the rest.

    The gain is the cost, unless a replay of the steps has shown how much of it other work hides,
    the operations themselves have to be done in any case (family 'compute'), or the fix is known to
    save only a share on average (`Rule.usual_share`).

    What has ended the steps comes first (`Rule.ends_steps`). What takes most of the run before its
    first step, or in a few long steps, comes before what a step costs. Found ones that another
    explains come after all others that were found. A cause that explains most of a symptom's cost
    (`Rule.refines`) ranks by the cost of the symptom. What is often chosen on purpose
    (`Rule.is_deliberate`), or not known to help (`Finding.is_optional`), comes after what is not.

    Args:
        findings: In any order; the sort is stable.
        table: Diagnoses that may have returned them.
    """
    rules = _rules(table)
    found = {f.id: f for f in findings if f.verdict == "found"}

    def key(finding: Finding) -> tuple[int, bool, bool, bool, bool, bool, int, bool]:
        rule = rules.get(finding.id)
        cost = _gain_ns(finding, rule)
        symptom = found.get(rule.refines) if rule and finding.id in found else None
        is_cause = symptom is not None and explains(finding, symptom)
        if symptom is not None and is_cause:
            cost = max(cost, _gain_ns(symptom, rules.get(symptom.id)))
        return (
            _VERDICTS.index(finding.verdict),
            finding.explained_by != "",
            not (rule and rule.ends_steps),
            not _takes_most_of_the_run(finding),
            finding.cost_ns_per_step is None,
            bool(rule and rule.is_deliberate) or finding.is_optional,
            -cost,
            not is_cause,
        )

    return tuple(sorted(findings, key=key))


def _gain_ns(finding: Finding, rule: Rule | None) -> int:
    """The cost per step, as far as the fix can gain so much, ns."""
    usual_share = rule.usual_share if rule is not None else 1.0
    cost, saving = round(usual_share * (finding.cost_ns_per_step or 0)), finding.saving
    is_compute = rule is not None and rule.family == "compute"
    if saving is not None and saving.method == "ranks":
        return saving.high_ns  # a replay of all ranks measures what the cost only estimates
    if saving is not None and (saving.method == "replay" or is_compute):
        return min(cost, saving.high_ns)
    return cost


def _takes_most_of_the_run(finding: Finding) -> bool:
    """Whether it takes more time of the run than all steps do, or all that are as described."""
    of_run = (SHARE_OF_RUN, SHARE_OF_TRAINING, SHARE_BEYOND_MEDIAN)
    shares = [e.value for e in finding.evidence if e.what in of_run]
    return any(isinstance(share, float) and share > _MOST for share in shares)


def _families(table: Sequence[str]) -> dict[str, str]:
    return {id_: rule.family for id_, rule in _rules(table).items()}


def _rules(table: Sequence[str]) -> dict[str, Rule]:
    return {rule.id: rule for rule in (load(name).RULE for name in table)}


__all__ = ["TABLE", "Diagnosis", "Rule", "load", "rank", "run_across", "run_all"]
