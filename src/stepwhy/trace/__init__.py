"""The trace model: columnar, interned, integer nanoseconds on one clock."""

from stepwhy.columns.null import NULL
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
