"""The loop makes a new `tf.Session` in each step.

## What it means
A session prepares a graph before it first runs it: it optimises the graph, places its nodes and
makes their kernels. Variables belong to a session as well. A program that makes a session in each
step, often inside a function that is called in the loop, repeats all of this, and restores or
initialises the variables each time.

## Why it costs
Preparing a graph takes from milliseconds to seconds, however short its run is.

## How it is measured
`stepwhy run` logs when a session runs for the first time. The cost is the preparation of graphs in
the mean step.

## Fix
Make the session once, before the loop, and pass it to the functions that need it.

## Fix risk
Variables then keep their values from step to step.

## When it abstains
If the run was not observed, since traces of single runs do not show their session.
"""

from __future__ import annotations

from collections import Counter

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Sessions made in every step",
    found="Make the session once, before the loop",
    clear="All steps run in the same sessions",
    needs=(("step-log",),),
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.7,  # of the cost; initialising variables is prepared once as well
    change="keep the session",
    edit=Edit("compile", "gone"),
)

MOST = 0.5  # of the steps; fewer make a session for an evaluation or a summary
FEWEST = 5  # sessions; one each for training, evaluation and export is common


def diagnose(facts: Facts) -> Finding:
    """Judge how often a new session runs, and how long graphs are prepared."""
    if not uses_sessions(facts):
        return RULE.not_applicable("The program runs no session of TensorFlow 1.")
    rows = rows_of_kinds(facts.trace, "session")
    per_step = len(rows) / max(len(facts.trace.marks), 1)
    cost = facts.breakdown["compile"]
    # The line that most of the sessions run at first: only the first ones are logged with it.
    sources = Counter(facts.trace.events.source[rows].tolist())
    del sources[NULL]
    line = facts.trace.string(sources.most_common(1)[0][0]) if sources else ""
    evidence = (
        Evidence("sessions that ran", len(rows), "count", line),
        Evidence("sessions per step", round(per_step, 2), "count"),
        Evidence("share of the step that prepares graphs", facts.share("compile"), "fraction"),
    )
    is_rare = len(rows) < FEWEST or per_step < MOST
    return RULE.judge(facts, cost, evidence, RULE.fix(), unless=is_rare)
