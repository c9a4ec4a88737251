"""What a fix of the input starts beside the step."""

from types import SimpleNamespace

import pytest

from stepwhy.analyse.input import batch_work
from stepwhy.analyse.input.batch_work import BatchWork, starts_processes
from stepwhy.result.edits import parse_edit


@pytest.mark.parametrize(
    ("source", "framework", "edit", "expected"),
    [
        ("DataLoader", "pytorch", "input=workers:2", True),
        ("DataLoader", "pytorch", "input=prefetch", True),
        ("PyDataset", "tensorflow", "input=prefetch", True),
        ("generator", "jax", "input=workers:2", True),
        ("generator", "jax", "input=prefetch", False),  # a thread
        ("tf.data", "tensorflow", "input=workers:2", False),  # threads
        ("", "pytorch", "input=workers:2", True),
        ("", "pytorch", "input=prefetch", False),
        ("", "tensorflow", "input=workers:2", False),
        ("DataLoader", "pytorch", "input=gone", False),
        ("DataLoader", "pytorch", "python=overlapped", False),
    ],
)
def test_loaders_and_several_generators_need_processes(
    monkeypatch, source, framework, edit, expected
):
    work = BatchWork(source, "", 2, 1) if source else None
    monkeypatch.setattr(batch_work, "find_batch_work", lambda _: work)
    meta = SimpleNamespace(framework=framework)
    for has_accelerator in (False, True):
        facts = SimpleNamespace(has_accelerator=has_accelerator, trace=SimpleNamespace(meta=meta))
        found = starts_processes(facts, parse_edit(edit))
        assert found == (expected and not has_accelerator)
