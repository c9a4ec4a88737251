"""Metadata of a diagnosis, the findings it can return, and when it abstains.

A diagnosis is a module with a `RULE` and a pure function `diagnose(facts) -> Finding`. It imports
the words that it is written with from here.
"""

from __future__ import annotations

import math
from typing import Protocol

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.run.usable import unusable
from stepwhy.base.units import quantise, quantise_within
from stepwhy.diagnose.shared.advice import advice
from stepwhy.diagnose.shared.pipeline_calls import with_pipeline
from stepwhy.diagnose.shared.user_calls import in_users_words
from stepwhy.result import SIGNALS, Abstention, Edit, Evidence, Finding, Fix, Saving
from stepwhy.result.reasons import lack_of
from stepwhy.result.wording.verdict import why_unknown
from stepwhy.trace import Kind

SHARE_OF_RUN = "share of the run"
"""Evidence of what costs time once per run, as a fraction: such findings have no cost per step."""

SHARE_OF_TRAINING = "share of the training time"
"""Evidence of what interrupts the steps again and again, as a fraction."""

SHARE_BEYOND_MEDIAN = "share of the time of all steps beyond the median"
"""Evidence of what only some steps spend time on, as a fraction: the described step hides it."""


SPARED = "predicted saving without this work"
"""Evidence of work on each sample that can mostly be spared, with its line, in ns."""


class Diagnosis(Protocol):
    """The module of a diagnosis."""

    RULE: Rule

    def diagnose(self, facts: Facts) -> Finding:
        """Judge one run."""


class Rule(msgspec.Struct, frozen=True):
    """Metadata of a diagnosis, and the findings it can make.

    Args:
        module: `__name__` of the module, which gives `id` and `family`.
        name: The pattern in words; title of the page and of an abstention.
        found: Title when found, imperative.
        clear: Title when clear, descriptive.
        needs: Required signals; one signal of each tuple is enough.
        accelerator_only: Whether the pattern needs an accelerator to occur.
        refines: Id of the symptom that this pattern can cause; '' for none. If it explains most of
            the symptom's cost, the symptom is only listed as explained by it.
        of_ranks: Whether the pattern shows only in the comparison of several ranks, `Facts.ranks`.
        of_calls: Whether it judges the collectives that the ranks have entered, `Facts.calls`.
        of_positions: Whether it then also judges where ranks stand that record no collectives.
        ends_steps: Whether steps do not go on where it finds something, which comes first.
        of_stages: Whether it also shows in one stage of a pipeline.
        of_untraced: Whether it also shows in ranks whose steps were only timed, `Facts.untraced`.
        without_steps: Whether it can judge a record that does not show the steps.
        usual_share: Share of the cost that the fix saved on average where it was tried, or that it
            can save at most; the finding is ranked by it. 1 where neither is known.
        reads_settings: Whether it judges the settings of a process, `Meta.settings`. Where there
            are any, it checks itself what else it needs.
        is_deliberate: Whether what it finds is often chosen on purpose, so that it is listed last.
        least_share: Share of the step that the cost must be, or else `judge` says clear.
        least_saved: Share of the cost that the fix saves at least.
        most_saved: Share of the cost that the fix saves at most, as far as the step is so long.
        change: What the fix does, in a few words, as the name of the saving. '' for no saving,
            unless a finding brings its own.
        edit: What the fix changes, unless a finding brings its own.
    """

    module: str
    name: str
    found: str
    clear: str
    needs: tuple[tuple[str, ...], ...] = ()
    accelerator_only: bool = False
    refines: str = ""
    of_ranks: bool = False
    of_calls: bool = False
    of_positions: bool = False
    ends_steps: bool = False
    of_stages: bool = False
    of_untraced: bool = False
    without_steps: bool = False
    usual_share: float = 1.0
    is_deliberate: bool = False
    reads_settings: bool = False
    least_share: float = 0.0
    least_saved: float = 0.0
    most_saved: float = 1.0
    change: str = ""
    edit: Edit | None = None

    @property
    def id(self) -> str:
        """Noun for the failing pattern: the name of the module, with hyphens."""
        return self.module.rpartition(".")[2].replace("_", "-")

    @property
    def family(self) -> str:
        """Group in the documentation: the folder of the module, or 'any' without one."""
        folder = self.module.split(".")[-2]
        return "any" if folder == "diagnose" else folder.replace("_", " ")

    def fix(self, name: str = "fix", /, **values: object) -> Fix:
        """A fix of the Markdown file beside the module.

        Args:
            name: Its heading.
            values: What its text names in braces.
        """
        return advice(self.module, name, **values)

    def judge(
        self,
        facts: Facts,
        cost_ns: int,
        evidence: tuple[Evidence, ...],
        fix: Fix,
        *,
        shown: int | None = None,
        unless: bool = False,
        gain: Saving | None = None,
        edit: Edit | None = None,
    ) -> Finding:
        """The pattern was found if it costs enough of the step, else it was not.

        Args:
            facts: Facts of the run.
            cost_ns: Cost per mean steady step.
            evidence: Most important fact first.
            fix: What to do.
            shown: How many facts are shown where the pattern was not found; all by default.
            unless: Whether it was not found, whatever it costs.
            gain: What the fix would gain, where the shares of the rule do not say it.
            edit: What the fix changes, where `Rule.edit` does not say it.
        """
        if unless or not cost_ns or cost_ns < self.least_share * facts.wall_ns:
            return self.nothing(evidence[:shown])
        if gain is None and self.most_saved > 1:
            gain = self.usual_saving(cost_ns, facts.wall_ns)
        return self.finding(cost_ns, evidence, fix, gain, edit)

    def usual_saving(self, cost_ns: int, longest_ns: float = math.inf) -> Saving | None:
        """What the fix would gain of a cost, and no more than the longest time."""
        most_ns = min(self.most_saved * cost_ns, longest_ns)
        return saving(self.change, self.least_saved * cost_ns, most_ns) if self.change else None

    def finding(
        self,
        cost_ns: int | None,
        evidence: tuple[Evidence, ...],
        fix: Fix,
        saving: Saving | None = None,
        edit: Edit | None = None,
        *,
        title: str = "",
        is_optional: bool = False,
    ) -> Finding:
        """The pattern was found.

        Args:
            cost_ns: Cost per mean steady step; None if it has no measurable cost.
            evidence: Most important fact first.
            fix: What to do.
            saving: What the fix would gain, where the shares of the rule do not say it.
            edit: What the fix changes, where `Rule.edit` does not say it; it is about all of the
                cost, unless it says otherwise, and as sure as the low end of `saving` says. None
                if the step after the fix cannot be predicted.
            title: Title, where `Rule.found` is not precise.
            is_optional: Whether nothing shows that the fix helps here.
        """
        edit = edit or self.edit
        if saving is None and cost_ns:
            saving = self.usual_saving(cost_ns)
        if edit is not None and edit.cost_ns is None:
            edit = replace(edit, cost_ns=cost_ns)
        if edit is not None and saving is not None and cost_ns:
            edit = replace(edit, sure=min(saving.low_ns / cost_ns, 1.0))
        if saving is not None and cost_ns:
            saving = within_cost(saving, cost_ns)
            if saving.high_ns > cost_ns and not saving.note:
                saving = replace(saving, note=_MORE)
        found = Finding(self.id, "found", title or self.found, cost_ns, saving, evidence, fix)
        return replace(found, edit=edit if cost_ns else None, is_optional=is_optional)

    def nothing(self, evidence: tuple[Evidence, ...] = (), *, title: str = "") -> Finding:
        """The pattern was not found."""
        return Finding(self.id, "clear", title or self.clear, evidence=evidence)

    def no_data(self, signal: str, reason: str) -> Finding:
        """A required signal is missing.

        Args:
            signal: Its name in `SIGNALS`.
            reason: The same in words.
        """
        marker = Abstention("missing-signal", (signal,))
        return Finding(self.id, "no_data", self.name, reason=reason, abstention=marker)

    def lacks(self, *signals: str) -> Finding:
        """The trace does not record these signals; the reason names the first."""
        reason = f"The trace does not record {SIGNALS[signals[0]]} (signal '{signals[0]}')."
        found = self.no_data(signals[0], reason)
        return replace(found, abstention=Abstention("missing-signal", signals))

    def incomplete(self, signal: str, reason: str, evidence: tuple[Evidence, ...] = ()) -> Finding:
        """The trace is not complete enough to judge.

        Args:
            signal: Name in `SIGNALS` of what is incomplete.
            reason: The same in words.
            evidence: What is known.
        """
        marker = Abstention("incomplete-record", (signal,))
        return Finding(
            self.id, "incomplete", self.name, evidence=evidence, reason=reason, abstention=marker
        )

    def not_applicable(self, reason: str) -> Finding:
        """The pattern cannot occur in such a run."""
        marker = Abstention("not-applicable")
        return Finding(self.id, "not_applicable", self.name, reason=reason, abstention=marker)

    def error(self, reason: str) -> Finding:
        """The diagnosis itself failed."""
        return Finding(self.id, "error", self.name, reason=reason, abstention=Abstention("failed"))


# Signals that only a TensorFlow graph has: no other record of such a run could show them.
_OF_GRAPHS = frozenset({"graph-ops", "placement"})


def examine(diagnosis: Diagnosis, facts: Facts) -> Finding:
    """Run one diagnosis, or return why it abstains. Never raises.

    Args:
        diagnosis: The module.
        facts: Facts of the run.
    """
    rule = diagnosis.RULE
    try:
        found = _abstain(rule, facts) or diagnosis.diagnose(facts)
        return with_pipeline(in_users_words(found, facts), facts)
    except Exception as error:  # noqa: BLE001 - one failing diagnosis is one finding
        return rule.error(f"The diagnosis failed: {type(error).__name__}: {error}.")


def _abstain(rule: Rule, facts: Facts) -> Finding | None:
    if rule.of_calls:
        stands = rule.of_positions and len(facts.calls.positions) > 1
        return None if facts.calls.calls or stands else _without_calls(rule, facts)
    if rule.of_ranks:
        enough = len(facts.ranks) > 1 or (rule.of_stages and is_stage(facts))
        if not enough and len(facts.untraced) > 1:
            return None if rule.of_untraced else untimed(rule, facts)
        return None if enough else _one_rank(rule, facts)
    if rule.accelerator_only and not facts.has_accelerator:
        # A trace without slices does not show which devices exist.
        if not facts.trace.meta.device_expected and len(facts.trace.slices):
            return rule.not_applicable("The run uses no accelerator.")
        return rule.lacks("device-activity")
    if rule.reads_settings and facts.trace.meta.settings:
        return None
    seen = facts.trace.meta.signals | _seen(facts)
    absent = [names[0] for names in rule.needs if not seen.intersection(names)]
    if absent:
        if absent[0] in _OF_GRAPHS and facts.trace.meta.framework not in {"", "tensorflow"}:
            return rule.not_applicable("The run does not use TensorFlow.")
        return rule.lacks(*absent)
    # Placement is valid in any trace; times are not.
    needs_no_times = rule.family == "placement" or rule.without_steps
    return None if needs_no_times else untimed(rule, facts)


def untimed(rule: Rule, facts: Facts) -> Finding | None:
    """The abstention of a rule where the times of the steps cannot be judged; else None."""
    reason = unusable(facts)
    return None if reason is None else rule.incomplete(lack_of(reason), why_unknown(reason))


def is_stage(facts: Facts) -> bool:
    """Whether a rank is a stage of a pipeline, of which it is known how many stages it has."""
    return len({stage for _, stage in facts.trace.meta.stages}) > 1


def _without_calls(rule: Rule, facts: Facts) -> Finding:
    """The abstention of a rule about collectives where no rank lists those that it entered."""
    has_several = facts.trace.meta.world_size > 1 or len(facts.ranks) > 1
    if has_several or facts.trace.is_kind(Kind.COLLECTIVE).any() or not len(facts.trace.slices):
        return rule.lacks("collective-calls")
    return rule.not_applicable("The run has one rank.")


def _one_rank(rule: Rule, facts: Facts) -> Finding:
    trace = facts.trace
    if trace.meta.world_size > 1 or trace.is_kind(Kind.COLLECTIVE).any() or not len(trace.slices):
        return rule.no_data(
            "all-ranks",
            "Only one rank of the run is recorded here. Explain the traces of all ranks together.",
        )
    return rule.not_applicable("The run has one rank.")


def _seen(facts: Facts) -> frozenset[str]:
    """Signals that the facts show, regardless of what the profiler claims to record."""
    shown = {
        "device-time": bool(facts.leading),
        "kernels": "passes" not in facts.trace.meta.signals,
        "steps": facts.wall_ns > 0,
        "graph-ops": facts.names_nodes,
    }
    return frozenset(name for name, is_seen in shown.items() if is_seen)


def saving(edit: str, low_ns: float, high_ns: float) -> Saving:
    """A predicted saving, rounded to avoid false precision.

    Args:
        edit: The edit as data, e.g. 'remove input_wait'.
        low_ns: Lower bound per step.
        high_ns: Upper bound per step.
    """
    return Saving(quantise(low_ns), quantise(high_ns), edit)


_MORE = "It can save more than its cost, which counts only what is certainly lost."


def within_cost(saving: Saving, cost_ns: int) -> Saving:
    """A saving that does not exceed the cost by rounding alone."""
    low, high = (
        quantise_within(ns, cost_ns) if cost_ns < ns <= quantise(cost_ns) else ns
        for ns in (saving.low_ns, saving.high_ns)
    )
    return replace(saving, low_ns=low, high_ns=high)


__all__ = [
    "SHARE_BEYOND_MEDIAN",
    "SHARE_OF_RUN",
    "SHARE_OF_TRAINING",
    "SPARED",
    "Diagnosis",
    "Edit",
    "Evidence",
    "Facts",
    "Finding",
    "Fix",
    "Rule",
    "examine",
    "is_stage",
    "saving",
    "untimed",
    "within_cost",
]
