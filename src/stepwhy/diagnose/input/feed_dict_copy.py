"""Fed values are converted in each step, before the graph runs.

## What it means
`Session.run` converts each value in `feed_dict` to an array of the placeholder's type, on the
thread that runs the loop. A list is converted number by number; an array of another type is cast.

## Why it costs
The graph starts only when everything is converted, and each step and each epoch repeats the
conversion. An array of the placeholder's type costs little: feeding is not slow by itself.

## How it is measured
The time from the start of the traced runs to their first operation, excluding the preparation of
the graph and the fixed overhead of a run. It counts only as far as the fed values explain it:
`stepwhy run` records their types and sizes in traced runs. Where values are converted, copying the
converted arrays into the runtime, at 6 GB/s, does not count: it remains. It does count for the
largest array if that has 1 MiB or more and was the same in all traced steps, judged by a
fingerprint of its values: it need not be fed. Less than 0.6 ms is not reported, because the fixed
overhead varies by as much.

## Fix
Convert once, before the loop, to arrays of the placeholder's type. Keep what never changes in a
variable of the graph. If the data is too large for that, read it in the graph with `tf.data`, in
parallel with the step.

## Fix risk
None: the values are the same.

## When it abstains
When calls of `Session.run` were not recorded; `stepwhy run` records them. Does not apply to
programs without `Session.run`.
"""

from __future__ import annotations

from stepwhy.diagnose.shared.feeds import (
    CALL_NS,
    LEAST_NS,
    SessionValue,
    feeding_ns,
    parts_or_reason,
    session_values,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.sampled import launching_lines

RULE = Rule(
    __name__,
    name="Conversion of fed values",
    found="Convert the fed values once, before the loop",
    clear="Feeding costs little",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps

LARGE = 1 << 20  # bytes; less is copied in a small part of the overhead of a run
# Bytes per second of an array of the placeholder's type; 12 MiB took 2.0 ms, 48 MiB 6.2 ms.
_COPIED = 6e9
_GONE = Edit("dispatch", "gone")
_ONCE = "convert what is fed once"


def diagnose(facts: Facts) -> Finding:
    """Judge the time before the first operation of the runs."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    feeds = session_values(facts, fed=True)
    if not feeds:
        return RULE.nothing()
    evidence = (
        Evidence("before the first operation of Session.run", parts.before_ns, "ns"),
        *_sizes(feeds),
        *launching_lines(facts),
    )
    if feeds[0].is_constant and (feeds[0].bytes or 0) >= LARGE:
        cost = round(feeding_ns(parts, feeds) - _copying_ns(feeds[1:]))
        # What was copied is freed after the last operation.
        most_ns = cost + CALL_NS + max(parts.after_ns - CALL_NS, 0)
        way, title, what, edit = "constant", _CONSTANT_TITLE, "feed only what changes", _GONE
    elif {f.kind for f in feeds if (f.bytes or 0) >= (feeds[0].bytes or 0) / 2} == {"copy"}:
        cost = round(feeding_ns(parts, feeds))
        most_ns = min(cost + CALL_NS, parts.before_ns)
        way, title, what, edit = "large", _LARGE_TITLE, _ONCE, Edit("input", "prefetch")
    else:
        cost = round(feeding_ns(parts, feeds) - _copying_ns(feeds))
        most_ns = min(cost + CALL_NS, parts.before_ns)
        way, title, what, edit = "converted", "", _ONCE, _GONE
    if cost < max(SHARE * parts.wall_ns, LEAST_NS):
        return RULE.nothing(evidence)
    gain = saving(what, cost, most_ns)
    return RULE.finding(cost, evidence, RULE.fix(way), gain, edit, title=title)


def _copying_ns(feeds: list[SessionValue]) -> float:
    """Time to copy fed values once they have the right type."""
    return sum((feed.bytes or 0) / _COPIED * 1e9 for feed in feeds)


def _sizes(feeds: list[SessionValue]) -> list[Evidence]:
    """Sizes of the largest feeds, and how each is converted."""
    known = [f for f in feeds if f.bytes is not None][:3]
    return [
        Evidence(f"fed per step, {_conversion(f)}", f.bytes or 0, "bytes", f.name) for f in known
    ]


def _conversion(feed: SessionValue) -> str:
    conversions = {
        "items": "number by number",
        "cast": f"cast to {feed.graph_type}",
        "copy": "copied",
    }
    return f"{feed.python_type}, {conversions[feed.kind]}"


_CONSTANT_TITLE = "Keep in the graph what is fed again unchanged: each run copies all of it"
_LARGE_TITLE = "Let the graph read the large values that are fed"
