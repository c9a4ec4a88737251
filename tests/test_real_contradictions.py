"""No statement about a recorded trace contradicts another one.

STEPWHY_TRACES names a folder of traces that others recorded; those beside it, whose names end in a
number, hold more of them.
"""

import os
from pathlib import Path

import pytest

from stepwhy.base.errors import InputError
from stepwhy.result.contradictions import contradictions
from tests import recorded

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    recorded.EXPLAINED,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]


def inputs():
    """Files that may be traces, and folders that may hold the ranks of one run."""
    if not TRACES:
        return []
    folders = sorted(Path(TRACES).parent.glob(f"{Path(TRACES).name}*"))
    paths = [path for folder in folders for path in sorted(folder.rglob("*"))]
    # The folders of a kind of traces hold many runs.
    return [p for p in paths if "LICENSES" not in p.parts and p.parent not in folders]


@pytest.mark.parametrize("path", inputs(), ids=lambda path: "/".join(path.parts[-2:]))
def test_no_statement_contradicts_another(path):
    result = recorded.outcome_of(path)
    if not isinstance(result, InputError):  # not a trace, or several runs
        assert contradictions(result) == []
