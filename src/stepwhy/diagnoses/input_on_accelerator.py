"""Input operations run on the accelerator, or send data back and forth to it.

## What it means
The device scope of the model also contains the input pipeline. Operations with a kernel there, such
as random crops and colour changes, run on the accelerator image by image. Others, such as decoding
and queues, fall back to the host in between, so data is copied more than once.

## Why it costs
The accelerator processes single images and mostly waits for launches, and each copy stops both
sides. The host's cores, which could prepare the next batch, are idle.

## How it is measured
Input operations are recognised by type (decoding, parsing, readers, queues, datasets, distortions)
or by the name scope of the input functions. The diagnosis counts those that run on an accelerator,
the time of their kernels there, and copies from the accelerator to the host that start or end at
one of them: input on the accelerator should stay there.

## Fix
Put the input pipeline into its own CPU scope, and copy whole batches.

## Fix risk
None for the result; random distortions use other random numbers on another device.

## When it abstains
Without a record of the placement or of the names of operations. Prefetching to the device does not
count, only computation there and copies back to the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.groups import distinct_rows
from stepwhy.diagnoses.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.placement import by_op, exposed_copies_ns, listed
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.placement import copy_totals, device_copies, placed_nodes, type_of
from stepwhy.patterns import regex
from stepwhy.trace import NULL, DeviceKind, Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import CopyTotals, DeviceCopy, Node

    Rows = NDArray[np.signedinteger[Any]]

RULE = Rule(
    id="input-on-accelerator",
    family="placement",
    name="Input work on the accelerator",
    found="Put the input pipeline on the CPU",
    clear="No input work runs on the accelerator",
    needs=(("placement", "graph-ops"),),
    accelerator_only=True,
)

SHARE = 0.05  # of the step, in input kernels and in copies that they cause
LEAST_SAVED = 0.5  # of the cost; on the CPU the work has to hide behind the step

_TYPES = regex(
    r"Decode\w+|(Eager)?PyFunc\w*|Parse\w*Example\w*|\w*Reader\w*|\w*Queue\w*|\w*Dataset\w*"
    r"|\w*Iterator\w*|SampleDistortedBoundingBox\w*|RandomCrop|Adjust(Contrast|Hue|Saturation)\w*"
)
# Name scopes of operations from `tf.image`, `tf.train` and common input functions.
_SCOPES = regex(
    r"(^|/)(random_(crop|flip_\w+|brightness|contrast|hue|saturation)|adjust_(brightness|contrast"
    r"|hue|saturation)|distort\w*|per_image_standardization|decode_\w+|central_crop|(shuffle_)?"
    r"batch(_join)?|input_producer|input_pipeline|batch_processing|image_preprocessing"
    r"|preprocess\w*|augment\w*)(_\d+)?/"
)


def diagnose(facts: Facts) -> Finding:
    """Judge the input operations that run on an accelerator."""
    nodes = [n for n in placed_nodes(facts) if n.actual and is_input(n.op, n.name)]
    moved = [n for n in nodes if _is_accelerator(n.actual) and n.is_compute]
    back = _back(facts, nodes)
    rows = _kernels(facts)
    time = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    copying = exposed_copies_ns(facts, back) or 0 if back else 0
    cost = min(time + copying, facts.wall_ns)
    if cost < SHARE * facts.wall_ns or not (len(rows) or moved or back):
        counted = Evidence("input operations on the accelerator", len(moved), "count")
        return RULE.nothing((counted,) if nodes else ())
    evidence = _evidence(facts, moved, rows, copy_totals(facts, back))
    gain = saving("put input work on the CPU", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _FIX, gain)


def is_input(op: str, name: str) -> bool:
    """Whether an operation prepares input rather than training on it.

    Args:
        op: Op type.
        name: Name with its scope; gradients are never input.
    """
    if "gradients" in name:
        return False
    return _TYPES.fullmatch(op) is not None or _SCOPES.search(name) is not None


def _is_accelerator(device: str) -> bool:
    return type_of(device) not in {"", "CPU"}


def _back(facts: Facts, nodes: list[Node]) -> list[DeviceCopy]:
    """Copies of input from an accelerator to a host."""
    rows = {n.row for n in nodes}
    return [
        copy for copy in device_copies(facts)
        if copy.bytes != 0 and (copy.source in rows or copy.target in rows)
        and _is_accelerator(copy.sender) and not _is_accelerator(copy.receiver)
    ]  # fmt: skip


def _kernels(facts: Facts) -> Rows:
    """Kernels of input operations on the streams of an accelerator; (slices,)."""
    slices = facts.trace.slices
    rows = facts.slices(Kind.KERNEL, steady=True)
    rows = rows[_streams(facts)[slices.track[rows]] & (slices.scope[rows] != NULL)]
    found: Rows = rows[_are_input(facts, rows)]
    return found


def _streams(facts: Facts) -> NDArray[np.bool_]:
    """Mask of the tracks that are streams of an accelerator; (tracks,)."""
    tracks = facts.trace.tracks
    is_accelerator = np.append(facts.trace.devices.kind != DeviceKind.CPU, False)  # NULL
    found: NDArray[np.bool_] = (tracks.role == Role.STREAM) & is_accelerator[tracks.device]
    return found


def _are_input(facts: Facts, rows: Rows) -> NDArray[np.bool_]:
    """Mask of the slices, each of a graph node, whose operation prepares input; (rows,)."""
    slices, text = facts.trace.slices, facts.trace.string
    pairs, pair = distinct_rows(slices.name[rows], slices.scope[rows])
    are_input = np.array([is_input(text(name), text(scope)) for name, scope in pairs], dtype=bool)
    found: NDArray[np.bool_] = are_input[pair]
    return found


def _evidence(
    facts: Facts, moved: list[Node], rows: NDArray[np.int64], back: CopyTotals
) -> tuple[Evidence, ...]:
    found = []
    if len(rows):
        running = facts.mean_ns(time_of(facts, rows).total_ns)
        scopes = (facts.trace.string(int(s)) for s in facts.trace.slices.scope[rows])
        found.append(
            Evidence("accelerator time in input operations", running, "ns", listed(scopes))
        )
    if moved:
        named = listed(n.name for n in moved)
        found.append(Evidence("input operations on the accelerator", len(moved), "count", named))
        found.append(Evidence("device they ran on", listed(n.actual for n in moved), ""))
        lines = listed(n.line or n.source for n in moved)
        found.extend([Evidence("line that placed them", lines, "")] if lines else [])
    if back.count:
        found.append(Evidence("copies of input back to the host per step", back.count, "count"))
    if back.bytes is not None:
        found.append(Evidence("copied back to the host per step", back.bytes, "bytes"))
    found.extend(Evidence(f"{g.name} operations", g.count, "count") for g in by_op(moved)[:4])
    return tuple(found)


_FIX = Fix(
    "Build the input pipeline in a CPU scope outside the model's scope, and copy whole batches.",
    'with tf.device("/cpu:0"):\n'
    "    images, labels = input_pipeline()     # decode, distort, batch\n"
    'with tf.device("/gpu:0"):\n'
    "    loss = model(images, labels)",
    "unknown",
)
