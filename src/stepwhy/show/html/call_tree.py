"""The flame graph and the call tree of the page: the data that its script draws."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.kernel_names.short import short_name
from stepwhy.result.timeline import DRAWN_CATEGORIES
from stepwhy.show import words

if TYPE_CHECKING:
    from stepwhy.result import Result
    from stepwhy.result.profile import ProfileNode, ProfileResult
    from stepwhy.result.timeline import Timeline

# As in the timeline, so that the script finds a name there.
_LONGEST = 400
_NO_CATEGORY = -1


class TreeView(msgspec.Struct, frozen=True):
    """What the template shows.

    Args:
        data: The nodes as columns, see `web/src/tree.ts`: JSON, compressed by zlib, as base64.
        has_both: Whether there is time of the host and of a device to choose from.
        about: What the times are, in words.
        notes: What is not credited, in sentences.
    """

    data: str
    has_both: bool
    about: str
    notes: tuple[str, ...]


def tree_view(timeline: Timeline, result: Result) -> TreeView | None:
    """Template data of the tree; None if the trace has none."""
    view = next((one for one in timeline.views if one.view == "tree" and one.nodes), None)
    if view is None:
        return None
    data = base64.b64encode(zlib.compress(msgspec.json.encode(_columns(view)), 9)).decode()
    about = "Mean per step" if words.whole(result) == "step" else "Over the whole trace"
    if result.run.ranks > 1:
        about += ", the first rank"
    notes = tuple(note for note in view.notes if note not in result.notes)
    return TreeView(data, view.total.host_ns > 0 and view.total.device_ns > 0, about, notes)


def _columns(view: ProfileResult) -> dict[str, list[object]]:
    nodes = view.nodes
    return {
        "names": [_name(node) for node in nodes],
        "parent": [-1 if node.parent is None else node.parent for node in nodes],
        "kind": [node.kind for node in nodes],
        "category": [
            DRAWN_CATEGORIES.index(node.category) if node.category else _NO_CATEGORY
            for node in nodes
        ],
        "count": [node.own.count for node in nodes],
        "host": [node.own.host_ns for node in nodes],
        "device": [node.own.device_ns for node in nodes],
    }


def _name(node: ProfileNode) -> list[str]:
    """What is shown, and the whole name if that is another one."""
    half = _LONGEST // 2
    whole = node.name
    if len(whole) > _LONGEST:
        whole = f"{whole[:half]} … {whole[-half:]}"
    short = short_name(whole) if node.kind == "kernel" else whole
    return [short] if short == whole else [short, whole]
