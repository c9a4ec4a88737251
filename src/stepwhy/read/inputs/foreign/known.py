"""Files that people mistake for traces: what each is, and what to give instead.

The table is used for files that no importer reads. Its rows are tried in order, so a strict sign
comes before a lenient one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.errors import InputError, UnknownFormatError, UnsupportedFormatError
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.foreign import signs
from stepwhy.read.inputs.foreign.signs import any_of, begins, shows
from stepwhy.read.inputs.reduced import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.read.inputs.foreign.signs import Sign
    from stepwhy.read.inputs.source import Source


class Known(NamedTuple):
    """A kind of file.

    Args:
        sign: Whether a file is of this kind.
        what: What the file is and lacks, to complete 'x is <what>'.
        todo: What to give or record instead.
        error: Type of the error.
    """

    sign: Sign
    what: str
    todo: str
    error: type[InputError] = UnsupportedFormatError


# Text in files that XProf writes for its viewer, and names of processes there.
_VIEWER = regex(rb'"highres-ticks"|"name"\s*:\s*"\\?/(?:host:CPU|device:(?:GPU|TPU):\d)[^"]{0,80}"')
_OWN_REPORT = regex(rb"<title>[^<]* \xe2\x80\x93 stepwhy</title>")

_RECORD = "Record the run with 'stepwhy run', or give the trace that the profiler wrote"
_KINETO = (
    "Record a Kineto trace of the same steps (torch.profiler.profile, then "
    "export_chrome_trace), and give that"
)
_XPLANE = "Give the .xplane.pb that it was made from, in the same folder or on the same host"
_RUN_METADATA = (
    "Trace a step with RunOptions(trace_level=RunOptions.FULL_TRACE), and give its RunMetadata"
)
_NSYS = "Give the report itself as a database: nsys export --type sqlite REPORT.nsys-rep"
_ROCPROF = "Record with rocprofv3 --output-format json, and give that"
_ASCEND = "Give the trace_view.json of the same run, in ASCEND_PROFILER_OUTPUT"
_MODEL = "{}: it holds a model, and no times"

_TRANSPORT = (
    Known(
        begins(re.escape(MAGIC)),
        "a rank that stepwhy has reduced, without its trace",
        "Explain it with the others of its run, or give the trace that it was made from",
    ),
    Known(
        begins(rb"version https://git-lfs\.github\.com/spec/"),
        "a pointer of Git LFS: the file itself was not fetched",
        "Fetch it with 'git lfs pull', and give the file again",
    ),
    Known(
        begins(rb"(?:\.\./)*\.git/annex/objects/|/annex/objects/"),
        "a pointer of git-annex: the file itself was not fetched",
        "Fetch it with 'git annex get FILE', and give the file again",
    ),
    Known(
        signs.is_utf16,
        "text in UTF-16, as some shells and editors save it; traces are UTF-8",
        "Convert it with 'iconv -f UTF-16 -t UTF-8 FILE > NEW', or copy the original file",
    ),
)

_PYTORCH = (
    Known(
        begins(rb'\{\s*"schema"\s*:\s*"[^"]{1,40}"\s*,\s*"pid"\s*:\s*\d+\s*,\s*"time"'),
        "an execution trace of PyTorch: a graph of operations, without their times on any device",
        _KINETO,
    ),
    Known(
        signs.is_memory_snapshot,
        "a memory snapshot of PyTorch: a pickle, which is never opened, as it could run code",
        "Look at it at pytorch.org/memory_viz; to have memory explained beside time, record a "
        "Kineto trace with profile_memory=True",
    ),
    Known(
        begins(rb"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\."),
        _MODEL.format("a checkpoint of PyTorch"),
        _RECORD,
    ),
    Known(
        signs.is_pickle,
        "a Python pickle, which is never opened, as it could run code",
        _RECORD,
    ),
    Known(
        shows(rb"^ *Name .*Self CPU %.*\n?"),
        "a table that PyTorch's profiler printed: sums, without the time of any event",
        "Give the trace itself: prof.export_chrome_trace('trace.json')",
    ),
    Known(
        begins(rb"<html>\s*<head>[^\n]*<title>(?:GPU )?Memory Timeline"),
        "a memory timeline of PyTorch as a picture",
        "Export it as data: prof.export_memory_timeline('memory.raw.json.gz')",
    ),
)

_XPROF = (
    Known(
        any_of(
            shows(rb"type\.googleapis\.com/tensorflow\.profiler\."),
            signs.is_kernel_stats,
            signs.is_op_stats,
            begins(rb'\{\s*"memoryProfilePerAllocator"'),
            signs.is_op_profile,
        ),
        "a page that XProf derived from a profile: sums, without the time of any event",
        _XPLANE,
    ),
    Known(
        begins(rb'\[?\s*\{\s*"cols"\s*:\s*\[\s*\{'),
        "a table for XProf's pages: sums, without the time of any event",
        _XPLANE,
    ),
    Known(
        lambda source: b'"ph"' in source.head and _VIEWER.search(source.head) is not None,
        "the trace viewer's copy of an XPlane profile, which is incomplete",
        _XPLANE,
    ),
    Known(signs.is_hlo, "a module of XLA: instructions, without their times", _XPLANE),
)

_TENSORFLOW = (
    Known(
        begins(rb"(?:step_stats|dev_stats)\s*\{"),
        "a RunMetadata that was written as text",
        "Write it as bytes: open(path, 'wb').write(run_metadata.SerializeToString())",
    ),
    Known(
        any_of(signs.is_graph, begins(rb"(?:node|versions|library|meta_info_def)\s*\{")),
        "a TensorFlow graph: operations, without their times",
        _RUN_METADATA,
    ),
    Known(signs.is_saved_model, _MODEL.format("a SavedModel of TensorFlow"), _RUN_METADATA),
    Known(
        signs.is_op_log,
        "a log for tfprof: lines of code and sizes of operations, without their times",
        "Give what Profiler.serialize_to_string returns, or the RunMetadata of a traced run",
    ),
    Known(
        any_of(
            begins(rb"model_checkpoint_path\s*:"),
            # The index begins with a header that has no key: number of files, version.
            begins(rb"\x00\x00[\x04-\x7f]\x08[\x01-\x7f]\x1a\x02\x08\x01"),
        ),
        _MODEL.format("a part of a TensorFlow checkpoint"),
        _RECORD,
    ),
)

_MODELS = (
    Known(signs.is_onnx, _MODEL.format("an ONNX file"), _RECORD),
    Known(begins(rb"\x89HDF\r\n\x1a\n"), _MODEL.format("an HDF5 file"), _RECORD),
    Known(
        shows(rb'\A[\s\S]{4}\x00{4}\{"[^"]{1,200}":\{"'),
        _MODEL.format("a safetensors file"),
        _RECORD,
    ),
    Known(
        begins(rb"(?:\x93NUMPY|PAR1|ARROW1\x00)"),
        "a file of arrays or tables, not of events",
        _RECORD,
    ),
)

_VENDORS = (
    Known(
        any_of(
            shows(rb'^"?Time ?\(%\)"?,"?Total Time'),
            shows(rb'^"?Start ?\((?:ns|s|us|ms)\)"?,"?Duration ?\('),
            shows(rb"^ ?\*\* [\w/ ]+ \([\w]+\):\s*$"),
        ),
        "a table that 'nsys stats' made: a part of a report",
        _NSYS,
    ),
    Known(
        shows(rb"^==\d+== (?:NVPROF|Profiling|Generated)"),
        "what nvprof printed: sums, or a part of what it recorded",
        "Record with nvprof -o FILE, and give that file",
    ),
    Known(
        begins(rb"NVR\x00"),
        "a report of Nsight Compute: single kernels, measured again and again, not a step",
        "Record the step with nsys profile, and give its export (nsys export --type sqlite)",
    ),
    Known(
        begins(
            rb'"?(?:Name"?,"?Calls"?,"?TotalDurationNs|Index"?,"?KernelName|'
            rb'Kind"?,"?Agent_Id|Domain"?,"?Function)'
        ),
        "a table of rocprof: a part of what it recorded",
        _ROCPROF,
    ),
    Known(
        shows(rb"\ASQLite format 3\x00[\s\S]*CREATE (?:TABLE|VIEW) \W?rocpd_"),
        "a database of rocprofv3, which this version does not read",
        _ROCPROF,
    ),
    Known(
        shows(rb"\ASQLite format 3\x00[\s\S]*CREATE TABLE \W?CANN_API\b"),
        "a database of Ascend's profiler, which this version does not read",
        _ASCEND,
    ),
    Known(
        any_of(
            shows(rb'"Communication (?:Time|Bandwidth) Info"'),
            shows(rb'"Transport Type"\s*:[^{}]*"Bandwidth\(GB/s\)"'),
        ),
        "a table of exchanges that Ascend's profiler derived: sums, without what else ran",
        _ASCEND,
    ),
    Known(
        signs.is_perfetto,
        "a protobuf trace of Perfetto",
        "Give the profiler's own file; rocprofv3 writes it with --output-format json",
    ),
)

_OTHER_PROFILERS = (
    Known(
        signs.is_cpuprofile,
        "a CPU profile of Chrome or Node.js: samples of JavaScript, not of a training",
        _RECORD,
    ),
    Known(
        begins(rb"FLR\x00"),
        "a recording of Java Flight Recorder: it shows a Java program, not a training",
        _RECORD,
    ),
    Known(
        any_of(begins(rb'\{\s*"alloc_samples"'), shows(rb'^\s*\{?\s*"elapsed_time_sec"\s*:')),
        "a profile of Scalene: sums of lines, without the time of any call",
        _RECORD,
    ),
    Known(
        begins(rb"PERFILE2"),
        "a recording of perf: samples of the processor, without the steps and the device",
        _RECORD,
    ),
    Known(
        begins(rb"memray\x00?"),
        "a recording of memray: allocations, without the time of any operation",
        _RECORD,
    ),
    Known(
        shows(rb"speedscope\.app/file-format-schema\.json"),
        "a speedscope profile: samples of stacks, without the steps and the device",
        _RECORD,
    ),
    Known(
        begins(rb"[\x7b\xfb](?:[)\xa9]\x03|[(\xa8]\x03\x00\x00\x00)"),
        "a profile of cProfile: sums of functions, without the time of any call",
        _RECORD,
    ),
    Known(signs.is_pprof, "a pprof profile: sums of samples, without times", _RECORD),
    Known(
        shows(rb"\A(?:[^;\n]+;)+[^;\n]* \d+\r?$"),
        "stacks with counts, as for a flame graph: sums, without the time of any event",
        _RECORD,
    ),
)

_PAGES = (
    Known(
        begins(rb'\{\s*(?:"schema"\s*:\s*"stepwhy\.|"verdict"\s*:\s*\{\s*"bound_by")'),
        "a file that stepwhy wrote about a run, not its record",
        "Give the run directory, or the trace that it is about",
    ),
    Known(
        lambda source: _OWN_REPORT.search(source.head) is not None,
        "a report that stepwhy wrote",
        "Open it in a browser; to explain the run again, give its run directory or trace",
    ),
    Known(
        begins(rb"<(?:!doctype html|!DOCTYPE html|!DOCTYPE HTML|html|HTML)"),
        "a web page, not the data behind it",
        _RECORD,
    ),
    Known(
        begins(rb"(?:<\?xml|<svg|<!DOCTYPE svg|\x89PNG|\xff\xd8\xff|%PDF)"),
        "a picture or document, not a trace",
        _RECORD,
    ),
    Known(
        signs.is_program,
        "a program in Python, not the record of a run",
        "Run it under observation: stepwhy run FILE",
    ),
    Known(signs.is_table, "a table: its rows are no events that stepwhy knows", _RECORD),
    Known(
        signs.is_prose,
        "text, such as a log: it does not say what ran when",
        _RECORD,
        UnknownFormatError,
    ),
)

KNOWN: tuple[Known, ...] = (
    *_TRANSPORT,
    *_PYTORCH,
    *_XPROF,
    *_TENSORFLOW,
    *_MODELS,
    *_VENDORS,
    *_OTHER_PROFILERS,
    *_PAGES,
)
"""Tried in this order."""

# Names of files in archives that are not traces.
_MEMBERS = (
    (regex(r"(?:^|/)data\.pkl$"), _MODEL.format("a checkpoint of PyTorch")),
    (regex(r"^model\.weights\.h5$"), _MODEL.format("a Keras file")),
    (regex(r"\.npy$"), "an archive of arrays, not of events"),
)


def known(source: Source) -> InputError | None:
    """The error for a file of a known kind that is not a trace; None for other files."""
    row = next((row for row in KNOWN if row.sign(source)), None)
    return row.error(f"{source.origin} is {row.what}", row.todo) if row is not None else None


def known_archive(origin: str, members: Iterable[str]) -> InputError | None:
    """The error for an archive whose files cannot be traces; None if they can.

    Args:
        origin: Its name, for messages.
        members: Names of its files.
    """
    names = list(members)
    for pattern, what in _MEMBERS:
        if any(map(pattern.search, names)):
            return UnsupportedFormatError(f"{origin} is {what}", _RECORD)
    return None
