"""Messages: they are TensorFlow's, and they keep out of its way."""

import json

import pytest

from stepwhy.read.shared.tensorflow.messages import message_class, parse_message

THEIRS = {
    "RunMetadata": "config_pb2.RunMetadata",
    "FunctionGraphs": "config_pb2.RunMetadata.FunctionGraphs",
    "StepStats": "step_stats_pb2.StepStats",
    "DeviceStepStats": "step_stats_pb2.DeviceStepStats",
    "NodeExecStats": "step_stats_pb2.NodeExecStats",
    "AllocatorMemoryUsed": "step_stats_pb2.AllocatorMemoryUsed",
    "AllocationRecord": "step_stats_pb2.AllocationRecord",
    "MemoryStats": "step_stats_pb2.MemoryStats",
    "NodeOutput": "step_stats_pb2.NodeOutput",
    "TensorDescription": "tensor_description_pb2.TensorDescription",
    "AllocationDescription": "allocation_description_pb2.AllocationDescription",
    "GraphDef": "graph_pb2.GraphDef",
    "NodeDef": "node_def_pb2.NodeDef",
    "AttrEntry": "node_def_pb2.NodeDef.AttrEntry",
    "AttrValue": "attr_value_pb2.AttrValue",
    "ListValue": "attr_value_pb2.AttrValue.ListValue",
    "TensorShape": "tensor_shape_pb2.TensorShapeProto",
    "Dim": "tensor_shape_pb2.TensorShapeProto.Dim",
    "Event": "event_pb2.Event",
    "Summary": "summary_pb2.Summary",
    "SummaryValue": "summary_pb2.Summary.Value",
    "Tensor": "tensor_pb2.TensorProto",
    "ProfileProto": "tfprof_log_pb2.ProfileProto",
    "ProfileNodeEntry": "tfprof_log_pb2.ProfileProto.NodesEntry",
    "IdToStringEntry": "tfprof_log_pb2.ProfileProto.IdToStringEntry",
    "ProfileNode": "tfprof_log_pb2.ProfileNode",
    "InputEntry": "tfprof_log_pb2.ProfileNode.InputsEntry",
    "CodeDef": "tfprof_log_pb2.CodeDef",
    "CodeTrace": "tfprof_log_pb2.CodeDef.Trace",
    "ExecEntry": "tfprof_log_pb2.ProfileNode.ExecsEntry",
    "ExecProfile": "tfprof_log_pb2.ExecProfile",
    "ExecTimeEntry": "tfprof_log_pb2.ExecProfile.CpuExecsEntry",
    "ExecTime": "tfprof_log_pb2.ExecTime",
    "Tuple": "tfprof_log_pb2.Tuple",
    "ExecMemory": "tfprof_log_pb2.ExecMemory",
    "OutputMemoryEntry": "tfprof_log_pb2.ExecMemory.OutputMemoryEntry",
    "XSpace": "xplane_pb2.XSpace",
    "XPlane": "xplane_pb2.XPlane",
    "XLine": "xplane_pb2.XLine",
    "XEvent": "xplane_pb2.XEvent",
    "XStat": "xplane_pb2.XStat",
    "XEventMetadataEntry": "xplane_pb2.XPlane.EventMetadataEntry",
    "XEventMetadata": "xplane_pb2.XEventMetadata",
    "XStatMetadataEntry": "xplane_pb2.XPlane.StatMetadataEntry",
    "XStatMetadata": "xplane_pb2.XStatMetadata",
    "HloProto": "hlo_pb2.HloProto",
    "HloModule": "hlo_pb2.HloModuleProto",
    "HloComputation": "hlo_pb2.HloComputationProto",
    "HloInstruction": "hlo_pb2.HloInstructionProto",
    "HloShape": "xla_data_pb2.ShapeProto",
    "HloLayout": "xla_data_pb2.LayoutProto",
    "HloLiteral": "xla_data_pb2.LiteralProto",
    "HloMetadata": "xla_data_pb2.OpMetadata",
    "HloStacks": "hlo_pb2.StackFrameIndexProto",
    "HloLocation": "hlo_pb2.StackFrameIndexProto.FileLocation",
    "HloFrame": "hlo_pb2.StackFrameIndexProto.StackFrame",
}

# Fields of early releases, whose names and numbers TensorFlow keeps out of use.
RESERVED = {"CodeTrace": {"file": 1, "function": 3}}

SCRIPT = """
import json, sys
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.core.framework import (
    allocation_description_pb2, attr_value_pb2, graph_pb2, node_def_pb2, step_stats_pb2,
    summary_pb2, tensor_description_pb2, tensor_pb2, tensor_shape_pb2,
)
from tensorflow.core.profiler import tfprof_log_pb2
from tensorflow.core.util import event_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2
from stepwhy.read.shared.tensorflow.messages import message_class
message_class("RunMetadata")
fields = {
    ours: {f.name: [f.number, f.cpp_type] for f in eval(theirs).DESCRIPTOR.fields}
    for ours, theirs in json.loads(sys.argv[1]).items()
}
print(json.dumps(fields))
"""


@pytest.mark.framework
def test_names_numbers_and_types_are_tensorflows(tmp_path, forks):
    pytest.importorskip("tensorflow")
    theirs = json.loads(forks("tensorflow").check_output(SCRIPT, tmp_path, json.dumps(THEIRS)))
    for message in THEIRS:
        reserved = RESERVED.get(message, {})
        for field in message_class(message).DESCRIPTOR.fields:
            if field.name in reserved:
                assert field.number == reserved[field.name]
                continue
            number, kind = theirs[message][field.name]
            # An enum travels as the integer that it is declared as here.
            same = {field.CPPTYPE_INT32, field.CPPTYPE_ENUM}
            assert field.number == number, f"{message}.{field.name}"
            assert field.cpp_type == kind or {field.cpp_type, kind} == same


def test_every_message_is_compared():
    assert set(THEIRS) == set(message_class("RunMetadata").DESCRIPTOR.file.message_types_by_name)


def test_bytes_that_are_no_message_give_none():
    assert parse_message("GraphDef", b"\x0a\xff") is None


def test_names_do_not_collide_with_tensorflows():
    assert message_class("GraphDef").DESCRIPTOR.full_name == "stepwhy.tensorflow.GraphDef"
