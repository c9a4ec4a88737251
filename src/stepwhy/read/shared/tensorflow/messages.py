"""TensorFlow's messages of statistics, graphs and profiles as data: none of it is needed to read.

They live in a pool and package of their own, so that they never collide with TensorFlow's in the
same process. Strings are declared as bytes: a damaged character must not refuse the whole file.

Source: `step_stats.proto`, `config.proto`, `graph.proto`, `node_def.proto`, `attr_value.proto`,
`tensor_description.proto`, `allocation_description.proto`, `tensor_shape.proto`, `event.proto`,
`summary.proto`, `tensor.proto` and `tfprof_log.proto` of TensorFlow;
`xplane.proto` of its TSL, which JAX shares; `hlo.proto` and `xla_data.proto` of XLA.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_PACKAGE = "stepwhy.tensorflow"

# Message -> (field, number, type); '*' marks a repeated field. A map is, on the wire, a repeated
# message of key and value, and is declared as that.
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "RunMetadata": (
        ("step_stats", 1, "StepStats"),
        ("partition_graphs", 3, "*GraphDef"),
        ("function_graphs", 4, "*FunctionGraphs"),
    ),
    "FunctionGraphs": (("partition_graphs", 1, "*GraphDef"),),
    "StepStats": (("dev_stats", 1, "*DeviceStepStats"),),
    "DeviceStepStats": (("device", 1, "bytes"), ("node_stats", 2, "*NodeExecStats")),
    "NodeExecStats": (
        ("node_name", 1, "bytes"),
        ("all_start_micros", 2, "int64"),
        ("op_end_rel_micros", 4, "int64"),
        ("all_end_rel_micros", 5, "int64"),
        ("memory", 6, "*AllocatorMemoryUsed"),
        ("output", 7, "*NodeOutput"),
        ("timeline_label", 8, "bytes"),
        ("thread_id", 10, "uint32"),
        ("memory_stats", 12, "MemoryStats"),
        ("all_start_nanos", 13, "int64"),
        ("op_end_rel_nanos", 15, "int64"),
        ("all_end_rel_nanos", 16, "int64"),
    ),
    "AllocatorMemoryUsed": (
        ("allocator_name", 1, "bytes"),
        ("total_bytes", 2, "int64"),
        ("peak_bytes", 3, "int64"),
        ("live_bytes", 4, "int64"),
        ("allocator_bytes_in_use", 5, "int64"),
        ("allocation_records", 6, "*AllocationRecord"),
    ),
    "AllocationRecord": (("alloc_micros", 1, "int64"), ("alloc_bytes", 2, "int64")),
    "MemoryStats": (
        ("temp_memory_size", 1, "int64"),
        ("persistent_memory_size", 3, "int64"),
    ),
    "NodeOutput": (("slot", 1, "int32"), ("tensor_description", 3, "TensorDescription")),
    "TensorDescription": (
        ("shape", 2, "TensorShape"),
        ("allocation_description", 4, "AllocationDescription"),
    ),
    "AllocationDescription": (("requested_bytes", 1, "int64"),),
    "GraphDef": (("node", 1, "*NodeDef"),),
    "NodeDef": (
        ("name", 1, "bytes"),
        ("op", 2, "bytes"),
        ("input", 3, "*bytes"),
        ("device", 4, "bytes"),
        ("attr", 5, "*AttrEntry"),
    ),
    "AttrEntry": (("key", 1, "bytes"), ("value", 2, "AttrValue")),
    "AttrValue": (
        ("list", 1, "ListValue"),
        ("s", 2, "bytes"),
        ("b", 5, "bool"),
        ("type", 6, "int32"),
        ("shape", 7, "TensorShape"),
    ),
    "ListValue": (("s", 2, "*bytes"), ("shape", 7, "*TensorShape")),
    "TensorShape": (("dim", 2, "*Dim"), ("unknown_rank", 3, "bool")),
    "Dim": (("size", 1, "int64"),),
    # What TensorBoard reads: one event per record.
    "Event": (
        ("wall_time", 1, "double"),
        ("step", 2, "int64"),
        ("file_version", 3, "bytes"),
        ("summary", 5, "Summary"),
    ),
    "Summary": (("value", 1, "*SummaryValue"),),
    "SummaryValue": (("tag", 1, "bytes"), ("simple_value", 2, "float"), ("tensor", 8, "Tensor")),
    "Tensor": (("tensor_content", 4, "bytes"), ("float_val", 5, "*float")),
    # What tfprof writes. In early releases a line of code had texts in place of numbers.
    "ProfileProto": (("nodes", 1, "*ProfileNodeEntry"), ("id_to_string", 4, "*IdToStringEntry")),
    "ProfileNodeEntry": (("key", 1, "int64"), ("value", 2, "ProfileNode")),
    "IdToStringEntry": (("key", 1, "int64"), ("value", 2, "bytes")),
    "ProfileNode": (
        ("name", 1, "bytes"),
        ("inputs", 2, "*InputEntry"),
        ("canonical_device", 6, "bytes"),
        ("op", 9, "bytes"),
        ("trace", 10, "CodeDef"),
        ("execs", 12, "*ExecEntry"),
        ("id", 13, "int64"),
    ),
    "InputEntry": (("key", 1, "int32"), ("value", 2, "int64")),
    "CodeDef": (("traces", 1, "*CodeTrace"),),
    "CodeTrace": (
        ("file", 1, "bytes"),
        ("lineno", 2, "int32"),
        ("function", 3, "bytes"),
        ("file_id", 6, "int64"),
        ("function_id", 7, "int64"),
    ),
    "ExecEntry": (("key", 1, "int64"), ("value", 2, "ExecProfile")),
    "ExecProfile": (
        ("accelerator_execs", 4, "*ExecTimeEntry"),
        ("cpu_execs", 5, "*ExecTimeEntry"),
        ("memory_execs", 7, "*ExecMemory"),
        ("allocations", 11, "*AllocationRecord"),
    ),
    "ExecTimeEntry": (("key", 1, "bytes"), ("value", 2, "ExecTime")),
    "ExecTime": (("times", 1, "*Tuple"),),
    "Tuple": (("int64_values", 1, "*int64"),),
    "ExecMemory": (
        ("memory_micros", 1, "int64"),
        ("requested_bytes", 6, "int64"),
        ("peak_bytes", 7, "int64"),
        ("residual_bytes", 8, "int64"),
        ("output_bytes", 9, "int64"),
        ("allocator_bytes_in_use", 10, "int64"),
        ("output_memory", 11, "*OutputMemoryEntry"),
    ),
    "OutputMemoryEntry": (("key", 1, "int32"),),
    # Host names (field 4 of the space) are private, and not read.
    "XSpace": (("planes", 1, "*XPlane"), ("errors", 2, "*bytes")),
    "XPlane": (
        ("name", 2, "bytes"),
        ("lines", 3, "*XLine"),
        ("event_metadata", 4, "*XEventMetadataEntry"),
        ("stat_metadata", 5, "*XStatMetadataEntry"),
        ("stats", 6, "*XStat"),
    ),
    "XLine": (
        ("id", 1, "int64"),
        ("name", 2, "bytes"),
        ("timestamp_ns", 3, "int64"),
        ("events", 4, "*XEvent"),
        ("display_name", 11, "bytes"),
    ),
    "XEvent": (
        ("metadata_id", 1, "int64"),
        ("offset_ps", 2, "int64"),
        ("duration_ps", 3, "int64"),
        ("stats", 4, "*XStat"),
        ("num_occurrences", 5, "int64"),
    ),
    "XStat": (
        ("metadata_id", 1, "int64"),
        ("uint64_value", 3, "uint64"),
        ("int64_value", 4, "int64"),
        ("str_value", 5, "bytes"),
        ("ref_value", 7, "uint64"),
    ),
    "XEventMetadataEntry": (("key", 1, "int64"), ("value", 2, "XEventMetadata")),
    "XEventMetadata": (
        ("name", 2, "bytes"),
        ("display_name", 4, "bytes"),
        ("stats", 5, "*XStat"),
    ),
    "XStatMetadataEntry": (("key", 1, "int64"), ("value", 2, "XStatMetadata")),
    "XStatMetadata": (("name", 2, "bytes"),),
    # The compiled programs of XLA.
    "HloProto": (("hlo_module", 1, "HloModule"),),
    "HloModule": (
        ("computations", 3, "*HloComputation"),
        ("entry_computation_id", 6, "int64"),
        ("stack_frame_index", 17, "HloStacks"),
    ),
    "HloComputation": (
        ("instructions", 2, "*HloInstruction"),
        ("id", 5, "int64"),
        ("root_id", 6, "int64"),
    ),
    "HloInstruction": (
        ("name", 1, "bytes"),
        ("opcode", 2, "bytes"),
        ("shape", 3, "HloShape"),
        ("metadata", 7, "HloMetadata"),
        ("literal", 8, "HloLiteral"),
        ("parameter_number", 9, "int64"),
        ("tuple_index", 13, "int64"),
        ("dimensions", 14, "*int64"),
        ("custom_call_target", 28, "bytes"),
        ("id", 35, "int64"),
        ("operand_ids", 36, "*int64"),
        ("called_computation_ids", 38, "*int64"),
        ("backend_config", 43, "bytes"),
        ("comparison_direction", 63, "bytes"),
    ),
    "HloMetadata": (
        ("op_name", 2, "bytes"),
        ("source_file", 3, "bytes"),
        ("source_line", 4, "int32"),
        ("stack_frame_id", 15, "int32"),
    ),
    "HloStacks": (
        ("file_names", 1, "*bytes"),
        ("function_names", 2, "*bytes"),
        ("file_locations", 3, "*HloLocation"),
        ("stack_frames", 4, "*HloFrame"),
    ),
    "HloLocation": (
        ("file_name_id", 1, "int32"),
        ("function_name_id", 2, "int32"),
        ("line", 3, "int32"),
    ),
    "HloFrame": (("file_location_id", 1, "int32"), ("parent_frame_id", 2, "int32")),
    "HloShape": (
        ("element_type", 2, "int32"),
        ("dimensions", 3, "*int64"),
        ("tuple_shapes", 4, "*HloShape"),
        ("layout", 5, "HloLayout"),
    ),
    "HloLayout": (("minor_to_major", 1, "*int64"),),
    "HloLiteral": (
        ("preds", 2, "*bool"),
        ("s32s", 4, "*int32"),
        ("s64s", 5, "*int64"),
        ("u32s", 6, "*uint32"),
        ("u64s", 7, "*uint64"),
        ("f32s", 8, "*float"),
        ("f64s", 9, "*double"),
    ),
}


@cache
def message_class(name: str) -> Any:
    """The class of a message, e.g. 'RunMetadata'; imports protobuf at first use."""
    from google.protobuf import message_factory  # noqa: PLC0415 - costs 20 ms, needed by few files

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def parse_message(name: str, data: bytes) -> Any | None:
    """A parsed message, or None when the bytes are not one."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    message = message_class(name)()
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError):
        return None
    return message


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415

    file = descriptor_pb2.FileDescriptorProto(
        name="stepwhy/tensorflow.proto", package=_PACKAGE, syntax="proto3"
    )
    for message, declared in _MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for name, number, kind in declared:
            _declare(descriptor_pb2.FieldDescriptorProto, descriptor, name, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _declare(field: Any, descriptor: Any, name: str, number: int, kind: str) -> None:
    label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    if kind in _MESSAGES:
        descriptor.field.add(
            name=name,
            number=number,
            label=label,
            type=field.TYPE_MESSAGE,
            type_name=f".{_PACKAGE}.{kind}",
        )
    else:
        scalar = getattr(field, f"TYPE_{kind.upper()}")
        descriptor.field.add(name=name, number=number, label=label, type=scalar)
