"""The abstention of diagnoses that need a step whose operations were looked at one by one."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.semantic_ops import has_semantics, why_none
from stepwhy.diagnose.shared.rule import Rule
from stepwhy.result import Finding

_NOT_OBSERVED = (
    "The operations of no step were looked at one by one, which `stepwhy run` does in one step."
)


def without_semantics(rule: Rule, facts: Facts) -> Finding | None:
    """The abstention of a rule without such a step, with the reason; None if there is one.

    Args:
        rule: The rule.
        facts: Facts of the run.
    """
    if has_semantics(facts):
        return None
    reason = why_none(facts)
    text = f"The operations of no step were looked at one by one: {reason}." if reason else ""
    return rule.no_data("semantic-step", text or _NOT_OBSERVED)
