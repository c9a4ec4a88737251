"""Names in recorded traces: only true secrets are redacted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwhy.base.errors import StepwhyError
from stepwhy.base.redaction import Redactor
from stepwhy.base.redaction.redactor import users_in
from tests import recorded

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    recorded.TOGETHER,
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]

# (file, text) -> what it is shown as. The importers leave out paths and environments, where the
# recorded traces have their users and addresses.
TRUE_SECRETS: dict[tuple[str, str], str] = {}


def test_only_true_secrets_are_redacted() -> None:
    found, names = {}, 0
    folder = Path(TRACES or "")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            trace = recorded.facts_of(path).trace
        except StepwhyError:
            continue
        texts = [*trace.strings, *trace.meta.notes, *(c.help for c in trace.health.counters)]
        redactor = Redactor(users={user for text in texts for user in users_in(text)})
        shown = zip(texts, redactor.texts(texts), strict=True)
        found |= {(str(path.relative_to(folder)), a): b for a, b in shown if a != b}
        names += len(texts)
    assert names > 10_000
    assert found == TRUE_SECRETS
