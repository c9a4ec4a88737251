"""Diagnoses: one module per failing pattern, which turns the facts of a run into a finding.

A diagnosis is one module, one literate test and one line in `TABLE`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from stepwhy.diagnoses.exposed_communication import without_waits
from stepwhy.diagnoses.shared.rule import Diagnosis, Rule, examine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

TABLE: tuple[str, ...] = (
    "input_bound",
    "serial_input",
    "missing_prefetch",
    "python_preprocessing",
    "queue_starvation",
    "repeated_preprocessing",
    "feed_dict_copy",
    "launch_bound",
    "host_sync",
    "graph_growth",
    "recompilation",
    "checkpoint_stall",
    "python_overhead",
    "host_callback",
    "eager_loop",
    "large_fetch",
    "session_overhead",
    "misplaced_op",
    "single_device_towers",
    "unfetched_tower",
    "soft_placement_fallback",
    "input_on_accelerator",
    "uncolocated_gradients",
    "variable_traffic",
    "pageable_copy",
    "exposed_transfer",
    "slow_link",
    "unfused_batch_norm",
    "unfavourable_layout",
    "full_precision_matmul",
    "unfused_attention",
    "redundant_cast",
    "dominant_op",
    "swapping",
    "allocator_pressure",
    "page_faults",
    "memory_headroom",
    "straggler",
    "start_skew",
    "pipeline_bubble",
    "stage_imbalance",
    "exposed_communication",
    "warmup_included",
    "wall_device_gap",
)
"""Modules of the diagnoses by family, in the order of the documentation."""

_VERDICTS = ("found", "error", "incomplete", "clear", "no_data", "not_applicable")


def load(name: str) -> Diagnosis:
    """Import the module of a diagnosis.

    Args:
        name: An entry of `TABLE`.
    """
    return cast("Diagnosis", import_module(f"{__name__}.{name}"))


def run_all(facts: Facts, table: Sequence[str] = TABLE) -> tuple[Finding, ...]:
    """Run every diagnosis and rank their findings. Never raises.

    Args:
        facts: Facts of the run.
        table: The diagnoses to run.
    """
    return rank([examine(load(name), facts) for name in table], table)


def run_across(facts: Facts, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of one rank, with those that compare it with the other ranks. Never raises.

    Args:
        facts: Facts of the rank, with all ranks in `Facts.ranks`.
        findings: What `run_all` found in the rank alone.
    """
    modules = [load(name) for name in TABLE]
    compared = {m.RULE.id: examine(m, facts) for m in modules if m.RULE.of_ranks}
    causes = rank([f for f in compared.values() if f.verdict == "found"])
    everything = [compared.get(f.id, f) for f in findings]
    return rank(
        [
            without_waits(f, facts, causes) if f.id == "exposed-communication" else f
            for f in everything
        ]
    )


_MAIN_CAUSE = 0.5  # of the symptom's cost; a cause that explains less ranks by its own cost


def rank(findings: Sequence[Finding], table: Sequence[str] = TABLE) -> tuple[Finding, ...]:
    """Sort findings: found ones by decreasing cost, then found ones without a cost, then the rest.

    A cause that explains most of a symptom's cost comes before the symptom (`Rule.refines`).

    Args:
        findings: In any order; the sort is stable.
        table: Diagnoses that may have returned them.
    """
    refines = {rule.id: rule.refines for rule in (load(name).RULE for name in table)}
    costs = {f.id: f.cost_ns_per_step for f in findings if f.verdict == "found"}

    def key(finding: Finding) -> tuple[int, bool, int, bool]:
        cost, symptom = finding.cost_ns_per_step or 0, refines.get(finding.id, "")
        whole = costs.get(symptom) or 0
        explains = finding.id in costs and whole > 0 and cost >= _MAIN_CAUSE * whole
        return (
            _VERDICTS.index(finding.verdict),
            finding.cost_ns_per_step is None,
            -(max(cost, whole) if explains else cost),
            not explains,
        )

    return tuple(sorted(findings, key=key))


__all__ = ["TABLE", "Diagnosis", "Rule", "load", "rank", "run_across", "run_all"]
