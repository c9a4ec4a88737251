"""Formats are told by content, and what cannot be read is told apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fuzz.formats import BY_NAME, seeds
from msgspec.structs import replace
from tests.read.cuda_samples import Nsys, Nvprof, write_database

from stepwhy.base.errors import (
    CorruptInputError,
    TooLargeError,
    UnknownFormatError,
    UnsupportedFormatError,
)
from stepwhy.read import formats, registry
from stepwhy.read.inputs import memory
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import all_formats, read_trace, reader_of

PACKAGES = Path(formats.__path__[0])
KINETO = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 3}
        ],
    }
).encode()
TIMELINE = json.dumps(
    {
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/cpu:0 Compute"}},
            {
                "ph": "X",
                "cat": "Op",
                "name": "MatMul",
                "pid": 1,
                "tid": 0,
                "ts": 5,
                "dur": 3,
                "args": {"name": "a/MatMul", "op": "MatMul"},
            },
        ]
    }
).encode()


@pytest.mark.parametrize(("data", "expected"), [(KINETO, "kineto"), (TIMELINE, "tf-timeline")])
def test_format_by_content(data, expected):
    trace, name = read_trace(Source(data, "misleading.xplane.pb"))
    assert (name, len(trace.slices)) == (expected, 1)


@pytest.mark.parametrize(
    ("head", "error", "words"),
    [
        (b"SQLite format 3\x00" + bytes(80), CorruptInputError, "damaged SQLite database"),
        (b"NVIDIA Tegra Profiler Report 1.", UnsupportedFormatError, "nsys export --type sqlite"),
        (b"PK\x03\x04whatever", UnsupportedFormatError, "zip archive"),
        (b"\xff\x0b\x12\x09/host:CPU" + bytes(9), CorruptInputError, "damaged XPlane profile"),
        (b"\n\xef\xbf\xbd\x01\x12\xef\xbf\xbd\x02\x08" * 40, CorruptInputError, "saved as text"),
        (b'[{"ph": "B", "name": "iteration"},', CorruptInputError, "cut off before anything"),
        (b'[{"ph": "B", "name": "iteration"}]', UnknownFormatError, "no range has both"),
        (b"hello", UnknownFormatError, "no trace that stepwhy knows"),
        (b'{"a": 1}', UnknownFormatError, "no trace that stepwhy knows"),
    ],
)
def test_what_cannot_be_read_is_told_apart(head, error, words):
    with pytest.raises(error, match=words) as caught:
        read_trace(Source(head, "file"))
    assert caught.value.todo
    assert str(caught.value).endswith(f"{caught.value.todo}.")


def test_databases_are_told_apart_by_their_tables(tmp_path):
    nsys = Nsys().kernel("k", 0, 5).write(tmp_path / "a.db")
    nvprof = Nvprof().kernel("k", 0, 5).write(tmp_path / "b.db")
    assert [read_trace(read_source(p))[1] for p in (nsys, nvprof)] == ["nsys", "nvprof"]
    other = write_database(tmp_path / "c.db", {"moz_places": [{"url": "x"}]})
    with pytest.raises(UnknownFormatError, match="neither of Nsight Systems nor of nvprof"):
        read_trace(read_source(other))


def test_a_file_that_its_importer_has_no_memory_for_is_refused(monkeypatch):
    greedy = replace(all_formats()["tf_timeline"], memory_factor=6)
    monkeypatch.setitem(all_formats(), "tf_timeline", greedy)
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * len(TIMELINE))
    with pytest.raises(TooLargeError, match="at least 6 times"):
        read_trace(Source(TIMELINE, "timeline.json"))
    monkeypatch.setattr(memory, "available_bytes", lambda: 5 * len(TIMELINE))
    assert read_trace(Source(TIMELINE, "timeline.json"))[1] == "tf-timeline"


def test_every_package_is_a_format():
    folders = [path.name for path in PACKAGES.iterdir() if (path / "__init__.py").exists()]
    assert sorted(all_formats()) == sorted(folders)
    for name in folders:
        reader = reader_of(name)
        assert callable(reader.recognise), name
        assert callable(reader.read), name


def test_formats_are_tried_after_those_they_name():
    order = list(all_formats())
    for name, declaration in all_formats().items():
        assert all(order.index(other) < order.index(name) for other in declaration.after), name
    assert order[-1] == "chrome_trace"


@pytest.mark.parametrize("name", BY_NAME)
def test_traces_show_no_more_than_their_format_declares(name, monkeypatch):
    """`tests/test_real_traces.py` has the recorded files of Kineto, which take long to shorten."""
    declared = all_formats()[name].signals
    if name == "kineto":
        monkeypatch.delenv("STEPWHY_TRACES", raising=False)
    if declared is None:
        return
    for files in seeds(name):
        first = next(iter(files))
        trace = reader_of(name).read(Source(files[first], first))
        assert trace is not None
        assert trace.meta.signals <= set(declared)


def test_torn_archive_is_an_error_counter():
    trace, _ = read_trace(Source(KINETO, "a.json.gz", truncated=True))
    counter = trace.health.counters[0]
    assert (counter.counter, counter.severity) == ("gzip-truncated", "error")


# --- Formats of other distributions ---

INSTALLED = {
    "lines_format/__init__.py": (
        "from stepwhy.read.format import Format\nFORMAT = Format(signals=(), magic=b'LINES 1')\n"
    ),
    "lines_format/reader.py": (
        "from stepwhy.trace import Kind, Meta, Role, TraceBuilder\n"
        "def recognise(source):\n"
        "    return source.head.startswith(b'LINES 1')\n"
        "def read(source):\n"
        "    builder = TraceBuilder()\n"
        "    track = builder.track(Role.HOST_THREAD, 'main')\n"
        "    for line in source.data.decode().splitlines()[1:]:\n"
        "        start, dur, name = line.split()\n"
        "        builder.slice(track, Kind.FRAMEWORK, name, int(start), int(dur))\n"
        "    return builder.finish(Meta(format='lines'))\n"
    ),
    "lines_format-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: lines-format\nVersion: 1\n",
    "lines_format-1.dist-info/entry_points.txt": "[stepwhy.formats]\nlines = lines_format\n",
}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder on the path, in which a distribution with a format of its own is installed."""
    for name, text in INSTALLED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    yield tmp_path
    registry._installed.cache_clear()
    for name in ("lines_format", "lines_format.reader"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("installed")
def test_another_distribution_may_add_a_format():
    trace, name = read_trace(Source(b"LINES 1\n5 7 mm\n", "a"))
    assert (name, trace.slices.dur_ns.tolist()) == ("lines", [7])


def test_what_is_installed_does_not_change_how_a_known_file_is_read(installed):
    (installed / "lines_format/reader.py").write_text("def recognise(source): return True\n")
    assert read_trace(Source(KINETO, "a"))[1] == "kineto"


def test_a_format_that_cannot_be_loaded_is_named_with_its_package(installed):
    (installed / "lines_format/__init__.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(UnsupportedFormatError, match="package lines-format adds, cannot be loaded"):
        read_trace(Source(b"nothing known", "a"))
