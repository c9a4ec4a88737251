"""Which rules speak on recorded traces of healthy programs: those that compute, and little else.

What is healthy is what an expert wrote beside the traces: bound by computation, and no second
cause. `SAID` is the whole table; of all other rules and traces, it says silence.
"""

import json
import os
from pathlib import Path

import pytest
from tests import recorded

from stepwhy.diagnose import TABLE

TRACES = os.environ.get("STEPWHY_TRACES", "")
FOLDERS = [Path(TRACES), Path(TRACES, "../traces2"), Path(TRACES, "../traces3")] if TRACES else []
BOUND_BY_COMPUTATION = {"gpu_compute", "cpu_compute"}


def healthy_in(folder):
    """The files of a folder of traces that an expert found to be bound by computation alone."""
    facts = json.loads((folder / "FACTS.json").read_text(encoding="utf-8"))
    experts = {name: known["expert"] for name, known in facts.items() if "expert" in known}
    return sorted(
        folder / name
        for name, said in experts.items()
        if said.get("primary") in BOUND_BY_COMPUTATION and not said.get("secondary")
    )


HEALTHY = [path for folder in FOLDERS if folder.is_dir() for path in healthy_in(folder)]
# Findings about faster ways to compute the same, and about a first step that the expert names, too.
SAID = {
    "dominant-op": {"maxtext_fsdp4_h100.trace.parquet"},
    "full-precision-matmul": {"r50_v100_nw4_2021.json.gz"},
    "unfavourable-layout": {"mi210_gpu_only.json.gz"},
    "unfused-pattern": {
        "h100_2gpu_seqparallel_after.sqlite",
        "h100_2gpu_seqparallel_before.sqlite",
        "h100_qwen05b.json.gz",
    },
    "warmup-included": {"maxtext_fsdp4_h100.trace.parquet"},
}


@recorded.TOGETHER
@pytest.mark.traces
@pytest.mark.skipif(not HEALTHY, reason="STEPWHY_TRACES names no folder of traces")
def test_every_rule_is_silent_on_healthy_traces():
    said = {name.replace("_", "-"): set() for name in TABLE}
    for path in HEALTHY:
        for finding in recorded.findings_of(path):
            if finding.verdict == "found" and not finding.explained_by:
                said[finding.id].add(path.name)
    assert {id_: files for id_, files in said.items() if files} == SAID
