"""Every file of the folder of real traces is explained, or refused with the right answer.

The folder named by STEPWHY_TRACES holds them; they are no part of the package.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwhy.base.errors import (
    CorruptInputError,
    EmptyInputError,
    InputError,
    UnsupportedFormatError,
)
from tests import recorded

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    recorded.EXPLAINED,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]

# Tools with tests of their own, by folder or file.
ELSEWHERE = ("nsys/", "nvprof/", "megatron/", "other/rocprof", "other/ibm_aiu")
NO_TRACES = ("CATALOG.md", "FACTS.json", "LICENSES/")

FORMATS = {
    "kineto/": "kineto",
    "tf_timeline/": "tf-timeline",
    "xplane/": "xplane",
    "generated_cpu/run_metadata": "tf-run-metadata",
    "generated_cpu/tfprof": "tfprof",
    "generated_cpu/queue_starved/": "tensorboard",
    "malformed/kineto_truncated": "kineto",
}

# What the answer to a file says of it, and what to do.
REFUSED = {
    "other/pytorch_execution_trace": (
        UnsupportedFormatError,
        "an execution trace of PyTorch",
        "Kineto trace",
    ),
    "tf_profile_derived/gpu_input_bound.input_pipeline.pb": (
        UnsupportedFormatError,
        "a page that XProf derived",
        ".xplane.pb",
    ),
    "tf_profile_derived/gpu_input_bound.overview_page.pb": (
        UnsupportedFormatError,
        "a page that XProf derived",
        ".xplane.pb",
    ),
    "tf_profile_derived/cloud_tpu.input_pipeline.json": (
        UnsupportedFormatError,
        "a table for XProf's pages",
        ".xplane.pb",
    ),
    "malformed/empty_file": (EmptyInputError, "is empty", "Record the trace again"),
    "malformed/xplane_utf8_mangled": (CorruptInputError, "saved as text", "as binary"),
}

# Torn files that one tool may read in part, and another may not know.
EITHER = ("malformed/unterminated_list",)


def names():
    """Files of the folder that are for this test."""
    if not TRACES:
        return []
    paths = (str(p.relative_to(TRACES)) for p in Path(TRACES).rglob("*") if p.is_file())
    return sorted(p for p in paths if not p.startswith((*ELSEWHERE, *NO_TRACES)))


def row_of(table, name):
    """The entry of a table whose key the name begins with; None without any."""
    return next((value for key, value in table.items() if name.startswith(key)), None)


def test_every_row_has_an_example():
    for key in (*FORMATS, *REFUSED, *EITHER):
        assert any(name.startswith(key) for name in names()), key


@pytest.mark.parametrize("name", [n for n in names() if row_of(FORMATS, n)])
def test_a_trace_is_explained_by_its_own_importer(name):
    result = recorded.outcome_of(Path(TRACES, name))
    (given,) = result.inputs
    assert given.format == row_of(FORMATS, name)
    assert given.events_read >= given.events_kept > 0
    assert result.verdict.sentence
    assert sum(result.breakdown.categories.values()) == result.breakdown.wall_ns


@pytest.mark.parametrize("name", [n for n in names() if row_of(REFUSED, n)])
def test_what_is_no_trace_is_named_and_the_answer_says_what_to_do(name):
    error, what, todo = row_of(REFUSED, name)
    outcome = recorded.outcome_of(Path(TRACES, name))
    assert isinstance(outcome, error)
    assert what in outcome.what
    assert todo in outcome.todo


@pytest.mark.parametrize("name", [n for n in names() if n.startswith(EITHER)])
def test_a_torn_file_is_explained_in_part_or_refused(name):
    outcome = recorded.outcome_of(Path(TRACES, name))
    assert outcome.todo if isinstance(outcome, InputError) else outcome.inputs[0].health


def test_no_file_is_left_over():
    known = (*FORMATS, *REFUSED, *EITHER)
    assert [name for name in names() if not name.startswith(known)] == []
