"""Calls of tools in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stepwhy.apps.agents.answers import Answer, Failure
from stepwhy.apps.agents.messages import Request
from stepwhy.apps.agents.work import answer
from tests.engine.test_explain import kineto
from tests.kineto_samples import sample

if TYPE_CHECKING:
    from pathlib import Path


def write_samples(folder: Path) -> Path:
    """Write two traces of one program, and a folder of ranks."""
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_bytes(sample("2024 fractional"))
    (folder / "slow.json").write_text(kineto(slow=2))
    (folder / "ranks").mkdir()
    for rank in range(2):
        (folder / f"ranks/{rank}.json").write_text(kineto(rank=rank))
    return folder


def many_ops(count: int) -> str:
    """A trace with many kinds of operations on one step."""
    document = json.loads(kineto())
    events = document["traceEvents"]
    (first,) = [e for e in events if e["name"] == "aten::mm" and e["ts"] == 0]
    for n in range(count):
        at = {"ts": n * 90 / count, "dur": 60 / count}
        events.append({**first, "name": f"op{n:06d}::{'x' * 60}", **at})
    return json.dumps(document)


def call(folder: Path, tool: str, /, **arguments: Any) -> Answer | Failure:
    """What a tool answers."""
    return answer(Request(tool, arguments, (str(folder),)))


def answered(folder: Path, tool: str, /, **arguments: Any) -> Answer:
    """The answer of a tool that has one."""
    found = call(folder, tool, **arguments)
    assert isinstance(found, Answer), str(found)
    return found


def failed(folder: Path, tool: str, /, **arguments: Any) -> Failure:
    """The failure of a tool that has no answer."""
    found = call(folder, tool, **arguments)
    assert isinstance(found, Failure), found
    return found
