"""How well and how fast the recorded steps of traces are replayed.

    python benchmarks/whatif.py FOLDER... [--write JSON]    # quality of every trace with steps
    python benchmarks/whatif.py --speed TRACE               # seconds per million slices

Quality: each trace with steps of an accelerator is replayed with every delay replaced by the median
of its kind; the error is that of the median step, the drift that of a step's end. With its own
delays, a replay is the record by construction, so that would show nothing.

Speed: medians of five for the graph, an edit of the host, and one replay; and the time that pricing
all findings adds to explaining the trace.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from stepwhy import __version__
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import StepwhyError
from stepwhy.diagnose import run_all
from stepwhy.engine.assemble import assemble
from stepwhy.engine.explain import open_one
from stepwhy.engine.pricing import priced
from stepwhy.predict.changes import changed
from stepwhy.predict.graph import build_graph
from stepwhy.predict.quality import judge
from stepwhy.predict.replay import recorded, run
from stepwhy.result import parse_edit


def quality_of(path):
    """How well one trace is replayed; None if it has no steps of an accelerator."""
    try:
        facts = Facts(open_one(str(path)).trace)
    except StepwhyError:
        return None
    if not facts.has_accelerator or facts.steps.source == "whole-trace":
        return None
    found = judge(facts)
    return {
        "file": path.name,
        "format": facts.trace.meta.format,
        "qualifies": found.qualifies,
        "joined": found.joined_share,
        "opaque": found.opaque_share,
        "device": found.device_share,
        "error": found.median_error,
        "drift": found.worst_error,
        "reasons": list(found.reasons),
    }


def summary(rows):
    """Quantiles of the errors of some traces, as fractions of the step."""
    if not rows:
        return {"traces": 0}
    errors, drifts = ([row[name] or 0.0 for row in rows] for name in ("error", "drift"))
    return {
        "traces": len(rows),
        "p50": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "drift_p90": float(np.quantile(drifts, 0.9)),
    }


def seconds(call, repeats=5):
    """Median time of a call, s."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def speed_of(path):
    """Seconds per million slices of one trace, and what predictions add to explaining it."""
    trace = open_one(path).trace
    facts = Facts(trace)
    without = seconds(lambda: assemble(Facts(trace), path, "", predict=False), 3)
    findings = run_all(facts)
    facts.derived(build_graph)  # loads the compiled kernels
    graph = facts.derived(build_graph)
    edit = (parse_edit("dispatch=gone"),)
    millions = len(trace.slices) / 1e6

    def all_prices():
        fresh = Facts(trace)
        _ = fresh.steps, fresh.launches, fresh.nesting, fresh.breakdown
        begin = time.perf_counter()
        priced(fresh, findings)
        return time.perf_counter() - begin

    return {
        "slices": len(trace.slices),
        "nodes": len(graph.nodes),
        "graph": seconds(lambda: build_graph(facts)) / millions,
        "host_edit": seconds(lambda: changed(facts, graph, edit, best=True)) / millions,
        "replay": seconds(lambda: run(graph, recorded(graph))) / millions,
        "explain_s": without,
        "pricing_s": median(all_prices() for _ in range(3)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--speed", metavar="TRACE")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    result = {"date": datetime.now(UTC).date().isoformat(), "stepwhy": __version__}
    if options.speed:
        result["speed"] = speed_of(options.speed)
    files = [f for folder in options.folders for f in sorted(folder.rglob("*")) if f.is_file()]
    rows = [row for row in map(quality_of, files) if row is not None]
    if rows:
        good = [row for row in rows if row["qualifies"]]
        on_device = [row for row in good if row["device"] >= 0.1]
        result |= {
            "all": summary(rows), "qualifying": summary(good), "on_device": summary(on_device),
            "files": rows,
        }  # fmt: skip
    text = json.dumps(result, indent=1)
    if options.write:
        options.write.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
