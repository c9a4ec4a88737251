"""What diagnoses of pipelines share."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.shared.rule import Rule
from stepwhy.result import Finding
from stepwhy.trace import NULL

MEGATRON = frozenset({"megascan", "pipeline-schedule"})
"""Formats that only Megatron-LM writes."""


def no_stages(rule: Rule, facts: Facts) -> Finding:
    """Why the stages of a pipeline cannot be compared."""
    if all(rank.stage in {NULL, 0} for rank in facts.ranks):
        return rule.not_applicable("No pipeline stages are recorded.")
    return rule.incomplete("stages", "The passes of some pipeline stages are not recorded.")
