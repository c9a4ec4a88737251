"""Every place that writes a file uses `stepwhy.base.whole_files`, or has a reason."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import stepwhy

# One worker reads the code for all tests.
pytestmark = pytest.mark.xdist_group("sources")
ROOT = Path(stepwhy.__file__).parent

WRITES = {
    "write_bytes", "write_text", "touch", "mkstemp", "mkdtemp", "NamedTemporaryFile",
    "TemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "write_table", "copyfile",
    "copytree", "copy2", "move", "tofile", "savez", "mkfifo", "mknod", "link", "symlink",
    "symlink_to", "hardlink_to", "rename", "renames", "truncate", "export_chrome_trace",
}  # fmt: skip
OPENS = {"open", "fdopen", "open_regular", "ZipFile", "TarFile", "GzipFile", "FileIO"}
READ_MODES = {"r", "rb", "rt"}
READ_FLAGS = {
    "O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_NOFOLLOW", "O_DIRECTORY", "O_PATH",
}  # fmt: skip

THE_FUNCTIONS = "it is what the others go through"
STREAM = "into a file that `output_file`, `output_folder` or a private folder has opened"
OWN = "in a folder that this process, or the one it observes, has just created (mkdir)"
OPENED = "opens nothing for writing: a descriptor, a method of the same name, or data in memory"
READS = "for reading; the flags are in a variable"
PRIVATE = "a temporary file or folder with a random name, for this user alone"
KERNEL = "the kernel's own: /proc, /sys or /dev"
SIGNED = "append-only, without following links or waiting (test_planted_files.py)"
LOG = "append-only, without waiting, in the run directory of this run"
CACHE = "a new file in the user's own cache, whose owner and permissions are checked"

LEDGER = "append-only, without waiting, the user's own data"

NEW = "a new file, or none (`exist_ok=False`)"

REASONS = {
    "record/bootstrap/stepwhy_bootstrap.py os.open": SIGNED,
    "record/core/masking.py open_regular": "in place, without following links",
    "record/checks/interpreter.py self._marker.touch": PRIVATE,
    "record/checks/interpreter.py tempfile.TemporaryDirectory": PRIVATE,
    "record/checks/storage.py tempfile.TemporaryFile": PRIVATE,
    "record/core/process/folder.py open_regular": "the first block, without following links",
    "record/core/process/folder.py self._path.rename": OWN,
    "record/torch/trace_file.py gzip.open": OWN,
    "record/torch/trace_file.py profiler.export_chrome_trace": OWN,
    "record/core/process/folder.py draft.rename": OWN,
    "record/launcher/run_directory.py (self.path / ATTACHED_FILE).touch": NEW,
    "record/launcher/run_directory.py (self.path / _RUN_FILE).touch": NEW,
    "record/core/registry.py os.open": SIGNED,
    "record/sampling/py_spy.py os.fdopen": OPENED,
    "record/launcher/proxy.py os.open": KERNEL,
    "record/tf1/session_observer.py plan.open": OPENED,
    "record/tf1/window.py (folder / GRAPH_FILE).write_bytes": OWN,
    "record/tf1/window.py (folder / METADATA_FILE).write_bytes": OWN,
    "record/tf1/window.py os.link": OWN,
    "record/windows/xplane_window.py (folder / TRACE_FILE).write_bytes": OWN,
    "cli/explain_aside.py Path('/proc/self/oom_score_adj').write_text": KERNEL,
    "read/inputs/reading.py kind.open": OPENED,
    "read/inputs/private_folder.py tempfile.TemporaryDirectory": PRIVATE,
    "read/inputs/remote/web.py target.open": STREAM,
    "engine/executors/worker.py os.fdopen": OPENED,
    "show/export/files.py gzip.GzipFile": STREAM,
    "show/export/parquet.py pq.write_table": STREAM,
    "read/inputs/source.py TemporaryFile": PRIVATE,
    "read/inputs/source.py TemporaryDirectory": PRIVATE,
    "read/inputs/source.py copy.write_bytes": PRIVATE,
    "read/inputs/spool.py self.file.truncate": OPENED,
    "read/inputs/spool.py tempfile.TemporaryFile": PRIVATE,
    "read/inputs/within.py os.open": READS,
    "base/columns/code_cache.py open": CACHE,
    "base/columns/code_cache.py os.rename": CACHE,
    "base/columns/code_cache.py os.open": CACHE,
    "base/columns/trusted.py os.open": READS,
    "apps/serve/removal.py os.open": READS,
    "base/regular_files.py os.open": "as its callers say, which are listed here",
    "trace/store.py pq.write_table": OPENED,
    "api/trace_ready.py profiler.export_chrome_trace": PRIVATE,
    "api/trace_ready.py tempfile.mkdtemp": PRIVATE,
    "predict/ledger.py open_regular": LEDGER,
    "predict/ledger.py os.fdopen": OPENED,
    "trace/store.py zipfile.ZipFile": STREAM,
    "base/whole_files.py os.open": THE_FUNCTIONS,
    "base/whole_files.py open": THE_FUNCTIONS,
    "base/whole_files.py tempfile.TemporaryFile": THE_FUNCTIONS,
}


def is_reading(call):
    """Whether the mode or flags of an open call are literal and only for reading."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    flags = {node.attr for one in given for node in ast.walk(one) if isinstance(node, ast.Attribute)
             and node.attr.startswith("O_")}  # fmt: skip
    if flags:
        return flags <= READ_FLAGS
    if len(call.args) > 1 and not isinstance(call.args[1], ast.Constant):
        return False  # they are in a variable
    texts = [one.value for one in given if isinstance(one, ast.Constant)]
    modes = [text for text in texts if isinstance(text, str) and set(text) <= set("rwaxbt+")]
    return set(modes) <= READ_MODES


def written_in(source):
    """Calls in some code that may write or create files, as source text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in WRITES or (name in OPENS and not is_reading(node)):
                yield ast.unparse(function)


@cache
def all_written():
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        found |= {f"{place} {call}" for call in written_in(path.read_text())}
    return found


def test_every_other_write_has_a_reason():
    """A new one goes through `stepwhy.base.whole_files`, or is justified in `REASONS`."""
    assert sorted(all_written() - set(REASONS)) == []


def test_every_reason_is_used():
    assert sorted(set(REASONS) - all_written()) == []


CALLS = (
    "open('f', 'w')", "path.open('xb')", "path.open(mode='a')", "open(f, 'r+b')",
    "os.open(p, os.O_WRONLY)", "os.open(p, os.O_RDONLY | os.O_CREAT)", "p.write_text('')",
    "(a / 'b').write_bytes(b'')", "gzip.open(p, 'wb')", "zipfile.ZipFile(p, 'w')",
    "open_regular(p, os.O_RDWR)", "os.open(p, flags)", "open(p, mode)",
    "tempfile.mkstemp()", "os.fdopen(3, 'w')", "p.rename(q)",
)  # fmt: skip


@pytest.mark.parametrize("code", CALLS)
def test_write_is_detected(code):
    assert len(list(written_in(code))) == 1


@pytest.mark.parametrize(
    "code", ["open(p)", "open(p, 'rb')", "p.open()", "os.open(p, os.O_RDONLY)", "ZipFile(p)"]
)
def test_read_is_not_a_write(code):
    assert list(written_in(code)) == []
