"""TensorFlow device names: parsing, one canonical form, and what contradicts what.

Source: `DeviceNameUtils` and `tf.DeviceSpec`. A name is a list of fields, each of which may be
absent: ``/job:worker/replica:0/task:1/device:GPU:0``; old spellings are ``/gpu:0`` and ``/cpu:0``.
"""

from __future__ import annotations

import msgspec

from stepwhy.base.patterns import regex

_FIELD = regex(
    r"/(?:job:(?P<job>[A-Za-z][A-Za-z0-9_]*)"
    r"|replica:(?P<replica>\d+|\*)"
    r"|task:(?P<task>\d+|\*)"
    r"|(?:device:)?(?P<type>(?!job:|replica:|task:|stream:)[A-Za-z][A-Za-z0-9_]*)"
    r"(?::(?P<index>\d+|\*))?)(?=/|$)"
)


class DeviceSpec(msgspec.Struct, frozen=True):
    """The fields of a device name; '' where a field is absent.

    Args:
        job: Name of the job, 'localhost' in a session without a cluster.
        replica: Replica number, nearly always '0'.
        task: Number of the server process.
        type: Device type in capitals, e.g. 'GPU'.
        index: Number among the task's devices of this type.
    """

    job: str = ""
    replica: str = ""
    task: str = ""
    type: str = ""
    index: str = ""


_FIELDS = DeviceSpec.__struct_fields__


def parse_device(text: str) -> DeviceSpec | None:
    """The fields of a full or partial device name; None when it is not one.

    Args:
        text: E.g. '/job:worker/task:1/cpu:0', '/device:GPU:0' or '' (no constraint).
    """
    position = 0
    found: dict[str, str] = {}
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None:
            return None
        found.update({k: v for k, v in match.groupdict().items() if v and v != "*"})
        position = match.end()
    found["type"] = found.get("type", "").upper()
    return DeviceSpec(**found)


def merge(outer: DeviceSpec, inner: DeviceSpec) -> DeviceSpec:
    """What two nested device scopes ask for together: the inner one wins field by field.

    A new type without an index drops the outer index, as an index counts within its type.
    """
    merged = {f: getattr(inner, f) or getattr(outer, f) for f in _FIELDS}
    if inner.type and inner.type != outer.type:
        merged["index"] = inner.index
    return DeviceSpec(**merged)


def conflicts(outer: DeviceSpec, inner: DeviceSpec) -> bool:
    """Whether both name a field and disagree on it."""
    return any(
        getattr(outer, f) and getattr(inner, f) and getattr(outer, f) != getattr(inner, f)
        for f in _FIELDS
    )


def canonical(spec: DeviceSpec) -> str:
    """The one spelling of a device in a trace: '/job:worker/task:1 GPU:0', or 'GPU:0' locally.

    Replica 0 and a lone local process go without saying. Splitting it at '/' and ' ' gives the
    fields back, so that a partial request is satisfied where its fields are among the actual ones.
    """
    local = spec.job == "localhost" and spec.task in {"", "0"}
    parts = [] if local else [_field("job", spec.job), _field("task", spec.task)]
    if spec.replica not in {"", "0"}:
        parts.insert(min(1, len(parts)), _field("replica", spec.replica))
    device = f"{spec.type}:{spec.index}" if spec.index else spec.type
    return " ".join(filter(None, ("".join(parts), device)))


def canonical_name(text: str) -> str:
    """`canonical` of a device name; text that is no device name stays as it is."""
    spec = parse_device(text)
    return text if spec is None else canonical(spec)


def _field(key: str, value: str) -> str:
    return f"/{key}:{value}" if value else ""
