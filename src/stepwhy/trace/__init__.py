"""The trace of a run as columns: slices, counters, steps, in integer nanoseconds on one clock.

In: rows, from whatever reads a file (`builder`). Out: a `Trace`, whole or as a stored file.
`schema` says what each column means.
Imports: `base`.
"""

from stepwhy.base.columns.null import NULL
from stepwhy.trace.builder import TraceBuilder
from stepwhy.trace.health import Health, HealthCounter
from stepwhy.trace.kinds import (
    Copy,
    Dependence,
    DeviceKind,
    FlowKind,
    Kind,
    Phase,
    Role,
    SampleRole,
    WaitKind,
)
from stepwhy.trace.model import Columns, Meta, SliceIndex, Trace, among
from stepwhy.trace.schema import SCHEMA_VERSION

__all__ = [
    "NULL",
    "SCHEMA_VERSION",
    "Columns",
    "Copy",
    "Dependence",
    "DeviceKind",
    "FlowKind",
    "Health",
    "HealthCounter",
    "Kind",
    "Meta",
    "Phase",
    "Role",
    "SampleRole",
    "SliceIndex",
    "Trace",
    "TraceBuilder",
    "WaitKind",
    "among",
]
