"""A result begins with the collective that its ranks wait in, if they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.analyse.lateness.hangs import find_hang, find_mismatch
from stepwhy.result.wording.hangs import hang_sentence, mismatch_sentence

if TYPE_CHECKING:
    from stepwhy.analyse.ranks.calls import RunCalls
    from stepwhy.result import Result

_IDS = ("mismatched-collective", "hung-collective")


def with_hang(result: Result, calls: RunCalls, ending: str) -> Result:
    """The result, whose first sentence says which rank hangs where, or which calls differ.

    Args:
        result: The result.
        calls: The collectives of all ranks.
        ending: How the run ended, as recorded.
    """
    found = {f.id for f in result.findings if f.verdict == "found" and not f.explained_by}
    sentences = [*(_sentence(name, calls) for name in _IDS if name in found), ending]
    return replace(result, run=replace(result.run, ending=" ".join(filter(None, sentences))))


def _sentence(name: str, calls: RunCalls) -> str:
    if name == "mismatched-collective":
        mismatch = find_mismatch(calls)
        return mismatch_sentence(mismatch) if mismatch else ""
    hang = find_hang(calls)
    return hang_sentence(hang) if hang else ""


__all__ = ["with_hang"]
