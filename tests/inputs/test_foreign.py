"""Files that people mistake for traces: the error names each, and says what to use instead."""

from __future__ import annotations

import json
import pickle
import sqlite3
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.errors import EmptyInputError, UnknownFormatError, UnsupportedFormatError
from stepwhy.read.inputs.foreign.known import KNOWN, known, known_archive
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.reduced import MAGIC
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from tests.read import tf_samples


def field(number, *parts):
    """A field of bytes on the wire."""
    data = b"".join(parts)
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def number(field_number, value):
    """A field of a small number on the wire."""
    return bytes([field_number << 3, value])


SNAPSHOT = {"segments": [], "device_traces": [[]], "allocator_settings": {}}
NODE = field(1, field(1, b"x"), field(2, b"Relu"))
HLO = field(1, field(1, b"jit_step"), field(3, field(2, field(1, b"add.1"), field(2, b"add"))))
KERNEL = field(1, field(1, b"gemm"), field(5, b"\x01\x01\x01"), field(6, b"\x20\x01\x01"))
PACKETS = field(1, number(8, 5), number(10, 1)) + field(1, number(10, 1), field(11, b"\x08\x01"))

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
EVENTS = '[{"ph": "X", "ts": 1, "dur": 2, "name": "a"}]'
CALL = b'{"id":1,"callFrame":{"functionName":"(root)"},"hitCount":0}'
EXCHANGE = b'{"Communication Time Info": {"Elapse Time(ms)": 86.4}}'
LINK = b'{"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 8, "Bandwidth(GB/s)": 15.7}}'


def database(statement):
    """A database with a table."""
    connection = sqlite3.connect(":memory:")
    connection.execute(statement)
    connection.commit()
    return connection.serialize()


FILES = {
    "a rank that stepwhy has reduced": (MAGIC + b"\x01\x00x", "trace that it was made from"),
    "pointer of Git LFS": (LFS, "git lfs pull"),
    "pointer of git-annex": (b"/annex/objects/MD5E-s12--0f3c.json\n", "git annex get"),
    "text in UTF-16": (EVENTS.encode("utf-16"), "iconv -f UTF-16"),
    "text in UTF-16 (big-endian)": (b"\xfe\xff" + EVENTS.encode("utf-16-be"), "iconv"),
    "text in UTF-16 (without a mark)": (EVENTS.encode("utf-16-le"), "iconv"),
    "text in UTF-16 (big-endian without a mark)": (EVENTS.encode("utf-16-be"), "iconv"),
    "page that XProf derived (operations)": (
        b'{"byCategory":{"name":"by_category","children":[]},"deviceType":"TPU v3"}',
        "xplane.pb",
    ),
    "page that XProf derived (operations, protobuf)": (
        field(1, field(1, b"by_category"), field(3, field(1, b"fusion"))),
        "xplane.pb",
    ),
    "database of rocprofv3": (database("CREATE TABLE rocpd_string_1 (id)"), "--output-format json"),
    "database of Ascend's profiler": (database("CREATE TABLE CANN_API (a)"), "trace_view.json"),
    "table of exchanges": (b'{"step5": {"collective": {"x": %b}}}' % EXCHANGE, "trace_view.json"),
    "table of exchanges (matrix)": (b'{"step5": {"p2p": {"x": %b}}}' % LINK, "trace_view.json"),
    "CPU profile of Chrome": (b'{"nodes":[%b],"startTime":1,"samples":[1]}' % CALL, "stepwhy run"),
    "recording of Java Flight Recorder": (b"FLR\x00\x00\x02\x00\x01" + bytes(60), "stepwhy run"),
    "profile of Scalene": (
        b'{\n "alloc_samples": 0,\n "args": ["a.py"],\n "elapsed_time_sec": 2.1}',
        "stepwhy run",
    ),
    "recording of perf": (b"PERFILE2" + bytes(60), "stepwhy run"),
    "recording of memray": (b"memray\x00\x0b\x00\x00\x00", "stepwhy run"),
    "execution trace of PyTorch": (
        b'{ "schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "2026-01-01 10:00", "nodes": []}',
        "Kineto trace",
    ),
    "memory snapshot of PyTorch": (pickle.dumps(SNAPSHOT, protocol=4), "memory_viz"),
    "checkpoint of PyTorch": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "stepwhy run"),
    "Python pickle": (pickle.dumps({"loss": 1.0}), "stepwhy run"),
    "PyTorch's profiler printed": (
        b"-------  ------\n   Name    Self CPU %   Self CPU   # of Calls\n aten::mm  5%  1us 1\n",
        "export_chrome_trace",
    ),
    "memory timeline of PyTorch": (
        b"<html>\n<head><meta charset='utf-8' /><title>GPU Memory Timeline HTML</title></head>",
        "raw.json.gz",
    ),
    "page that XProf derived": (
        field(2, field(4, b"\x0a\x3dtype.googleapis.com/tensorflow.profiler.PerGeneric")),
        "xplane.pb",
    ),
    "page that XProf derived (kernels)": (KERNEL, "xplane.pb"),
    "page that XProf derived (ops)": (
        field(4, field(1, number(1, 1), field(2, b"Device"), field(3, b"MatMul"))),
        "xplane.pb",
    ),
    "page that XProf derived (memory)": (b'{"memoryProfilePerAllocator":{}}', "xplane.pb"),
    "table for XProf's pages": (b'[{"cols":[{"id":"stepnum","label":"s"}],"rows":[]}]', "xplane"),
    "trace viewer's copy": (
        b'{"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}]}',
        "xplane.pb",
    ),
    "module of XLA": (HLO, "xplane.pb"),
    "module of XLA (alone)": (field(3, field(2, field(2, b"add"))), "xplane.pb"),
    "RunMetadata that was written as text": (b"step_stats {\n  dev_stats {\n", "SerializeToString"),
    "TensorFlow graph": (
        tf_samples.graph(("x", "Relu", tf_samples.CPU, [], {})).SerializeToString(),
        "RunMetadata",
    ),
    "TensorFlow graph (meta)": (field(2, NODE), "RunMetadata"),
    "TensorFlow graph (text)": (b'node {\n  name: "x"\n  op: "Relu"\n}\n', "RunMetadata"),
    "SavedModel": (number(1, 1) + field(2, field(1, b"\x0a\x00"), field(2, NODE)), "RunMetadata"),
    "log for tfprof": (
        field(1, field(1, b"x"), field(4, field(1, number(2, 41), number(6, 1)))),
        "serialize_to_string",
    ),
    "part of a TensorFlow checkpoint": (b'model_checkpoint_path: "model.ckpt-1"\n', "stepwhy run"),
    "part of a TensorFlow checkpoint (index)": (
        b"\x00\x00\x06\x08\x01\x1a\x02\x08\x01" + bytes(40),
        "stepwhy run",
    ),
    "ONNX file": (
        number(1, 8) + field(2, b"pytorch") + field(7, field(1, field(1, b"x"), field(4, b"Gemm"))),
        "stepwhy run",
    ),
    "HDF5 file": (b"\x89HDF\r\n\x1a\n" + bytes(40), "stepwhy run"),
    "safetensors file": (struct.pack("<Q", 60) + b'{"w":{"dtype":"F32"', "stepwhy run"),
    "file of arrays or tables": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'", "stepwhy run"),
    "table that 'nsys stats' made": (
        b'Time (%),Total Time (ns),Instances,Avg (ns),Name\n50.0,123,1,123.0,"gemm<int, int>"\n',
        "nsys export",
    ),
    "table that 'nsys stats' made (text)": (
        b"Processing [report.sqlite]\n\n ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n",
        "nsys export",
    ),
    "what nvprof printed": (
        b"==12== NVPROF is profiling process 12, command: python train.py\n==12== Profiling\n",
        "nvprof -o",
    ),
    "report of Nsight Compute": (b"NVR\x00\x0a\x0b", "nsys profile"),
    "table of rocprof": (
        b'"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"gemm",1,2,2,100\n',
        "rocprofv3",
    ),
    "protobuf trace of Perfetto": (PACKETS, "rocprofv3"),
    "speedscope profile": (
        b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[]}',
        "stepwhy run",
    ),
    "profile of cProfile": (b"{\xa9\x03\xda\x01~\xe9\x00\x00\x00\x00", "stepwhy run"),
    "pprof profile": (
        field(1, number(1, 1), number(2, 2))
        + b"".join(field(6, s) for s in (b"", b"space", b"bytes")),
        "stepwhy run",
    ),
    "stacks with counts": (b"main;train;step 41\nmain;train 3\n", "stepwhy run"),
    "file that stepwhy wrote": (b'{"schema": "stepwhy.result/1", "run": {}}', "run directory"),
    "file that stepwhy wrote about a run": (
        b'{"verdict":{"bound_by":"compute","confidence":0.3},"inputs":[]}',
        "run directory",
    ),
    "report that stepwhy wrote": (
        "<!doctype html>\n<html><title>Nothing. \N{EN DASH} stepwhy</title>".encode(),
        "browser",
    ),
    "web page": (b"<!DOCTYPE html>\n<html><body>TensorBoard</body></html>", "stepwhy run"),
    "picture or document": (b"\x89PNG\r\n\x1a\n" + bytes(20), "stepwhy run"),
    "program in Python": (b"import torch\nmodel = torch.nn.Linear(2, 2)\n", "stepwhy run FILE"),
    "table: its rows": (b"step;loss\n1;0.5\n2;0.4\n", "stepwhy run"),
}


@pytest.mark.parametrize("what", FILES)
def test_error_names_the_file_type_and_the_next_action(what):
    data, todo = FILES[what]
    error = known(Source(data, "file"))
    assert type(error) is UnsupportedFormatError
    assert what.partition(" (")[0] in error.what
    assert todo in error.todo


@pytest.mark.parametrize("what", FILES)
def test_no_importer_recognises_it(what):
    data, _ = FILES[what]
    with pytest.raises(UnsupportedFormatError) as caught:
        read_trace(Source(data, "file"))
    assert str(caught.value) == str(known(Source(data, "file")))


def test_a_log_is_text():
    error = known(Source("epoch 1: loss 0.5\nepoch 2: höher\n".encode(), "train.log"))
    assert type(error) is UnknownFormatError
    assert error.what.startswith("train.log is text, such as a log")


@pytest.mark.parametrize(
    "data", [b"", b"hello", b'{"a": 1}', bytes(range(256)), b"\x0a" * 64, b"\xff" * 999]
)
def test_other_files_are_not_known(data):
    assert known(Source(data, "file")) is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents": []}',
        b'\xef\xbb\xbf{"schemaVersion": 1, "deviceProperties": [], "traceEvents" : [\n], "n": 1}',
        b" [ ]\n",
        b'{"deviceProperties": [{"cat": "kernel", "name": "ph"}], "traceEvents": []}',
        b'{"traceEvents": [], "x": [{"cat": "kernel", "ph": "X"}]}',
    ],
)
def test_a_trace_without_events_is_empty_not_unknown(data):
    with pytest.raises(EmptyInputError) as caught:
        read_trace(Source(data, "file"))
    assert caught.value.what == "file is a trace without a single event"
    assert "active steps" in caught.value.todo


SAMPLES = [data for data, _ in FILES.values()]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.sampled_from(SAMPLES), st.sampled_from(SAMPLES), st.integers(0, 60), st.binary())
def test_no_bytes_make_a_sign_fail(one, other, cut, noise):
    error = known(Source(one[:cut] + noise + other[cut:], "file"))
    assert error is None or error.todo


def test_every_row_has_an_example():
    named = {row.what for row in KNOWN}
    met = set()
    for data, _ in FILES.values():
        error = known(Source(data, "file"))
        met.add(error.what.removeprefix("file is "))
    assert named - met == {"text, such as a log: it does not say what ran when"}


def test_a_pickle_is_never_opened():
    class Trap:
        def __reduce__(self):
            return exec, ("raise AssertionError('opened')",)

    data = pickle.dumps({"segments": Trap(), "device_traces": []})
    assert "never opened" in known(Source(data, "file")).what


def test_every_error_is_two_sentences_on_one_line():
    for row in KNOWN:
        assert not row.what.endswith(".")
        assert not row.todo.endswith(".")
        assert row.todo[:1].isupper()
        assert "\n" not in row.what + row.todo


@pytest.mark.parametrize(
    ("members", "what"),
    [
        (["archive/data.pkl", "archive/data/0"], "checkpoint of PyTorch"),
        (["metadata.json", "config.json", "model.weights.h5"], "Keras file"),
        (["arr_0.npy", "arr_1.npy"], "archive of arrays"),
    ],
)
def test_archives_are_recognised_by_member_names(members, what, tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, b"x")
    with pytest.raises(UnsupportedFormatError, match=what):
        read_source(path)


def test_archive_of_traces_is_not_known():
    assert known_archive("traces.zip", ["rank0.json", "rank1.json"]) is None


@pytest.mark.parametrize("indent", [None, 1])
def test_json_is_neither_prose_nor_a_table(indent):
    line = json.dumps({"a": [1, 2]}, indent=indent).encode() + b"\n"
    assert known(Source(line * 5, "file")) is None
