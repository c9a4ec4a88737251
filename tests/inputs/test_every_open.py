"""Every place that opens a file uses the functions of `stepwhy.read.inputs`, or has a reason."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import stepwhy

# One worker reads the code for all tests.
pytestmark = pytest.mark.xdist_group("sources")
ROOT = Path(stepwhy.__file__).parent

READS = {
    "open", "open_code", "read_bytes", "read_text", "connect", "memory_map", "OSFile", "fromfile",
    "memmap", "load_table", "read_table", "ParquetFile", "ZipFile", "TarFile",
}  # fmt: skip
LISTS = {"scandir", "listdir", "iterdir", "glob", "rglob", "iglob", "walk"}

THE_FUNCTIONS = "it is what the others go through"
KERNEL = "the kernel's own: /proc, /sys or /dev"
PACKAGE = "a file of this package, or of an installed one"
OWN = "what this process, or the observed one, has just written to a folder of its own"
CHECKED = "never waits, and refuses or fails on what is no file (test_planted_files.py)"
USERS = "the program that the user runs; it is about to be executed"
CACHE = "the user's own cache, whose owner and permissions are checked"
WRITTEN = "for writing only (test_every_write.py)"
SEARCH = "names alone, of one folder"
NO_PATH = "opens no path: a method of the same name, or an archive that is open already"
DATABASE = "read-only and bounded, after its head was read through open_input (test_databases.py)"

REASONS = {
    "base/optional.py distribution('stepwhy').read_text": PACKAGE,
    "record/bootstrap/stepwhy_bootstrap.py os.open": WRITTEN,
    "record/torch/request_thread.py (_TASKS / thread / 'stat').read_text": KERNEL,
    "cli/written_traces.py os.scandir": SEARCH,
    "record/checks/frameworks.py path.read_text": PACKAGE,
    "record/checks/machine.py self.path(name).read_text": KERNEL,
    "record/checks/target.py program.open": USERS,
    "record/launcher/run_directory.py self._counters.read_text": KERNEL,
    "record/sampling/processes.py os.open": KERNEL,
    "record/sampling/ptrace.py open": KERNEL,
    "record/torch/trace_file.py gzip.open": OWN,
    "record/torch/trace_file.py plain.open": OWN,
    "record/core/process/threads.py Path('/', path).read_text": KERNEL,
    "record/core/recorder.py self._folder.open": NO_PATH,
    "record/core/settings.py Path('/proc/self/environ').read_bytes": KERNEL,
    "record/core/settings.py Path(path).read_text": "a module of the program, imported already",
    "record/launcher/run_directory.py initial.read_bytes": KERNEL,
    "record/sampling/sampler.py Gpus.open": NO_PATH,
    "record/steps/meters.py _STATM.read_bytes": KERNEL,
    "record/steps/meters.py os.open": KERNEL,
    "record/core/registry.py os.open": CHECKED,
    "record/launcher/signals.py os.open": KERNEL,
    "record/launcher/proxy.py os.open": KERNEL,
    "record/launcher/launch.py path.read_bytes": KERNEL,
    "record/launcher/run_directory.py described.open": KERNEL,
    "record/tf1/session_observer.py plan.open": NO_PATH,
    "record/tf2/profiler.py path.read_bytes": OWN,
    "cli/lab_accuracy.py place.read_bytes": PACKAGE,
    "cli/lab_gpu_items.py (folder / 'items').glob": SEARCH,
    "cli/lab_gpu.py (pair.folder / PAIR_FILE).read_text": PACKAGE,
    "cli/lab_gpu.py gzip.open": NO_PATH,
    "cli/lab_gpu.py run.glob": SEARCH,
    "cli/lab_grades.py place.read_bytes": PACKAGE,
    "cli/lab_pairs.py file.read_text": PACKAGE,
    "cli/lab_pairs.py root.glob": PACKAGE,
    "cli/lab_world.py (lab_folder() / 'world').glob": PACKAGE,
    "cli/lab_world.py ast.walk": NO_PATH,
    "cli/lab_world.py file.read_text": PACKAGE,
    "cli/lab_world.py path.read_bytes": PACKAGE,
    "cli/lab_world.py place.read_bytes": PACKAGE,
    "cli/measuring.py folder.iterdir": SEARCH,
    "apps/sql/database.py duckdb.connect": "in memory, and reads no file (engine/test_sql.py)",
    "engine/present_traces.py folder.glob": SEARCH,
    "read/formats/run_directory/notes.py Path(f'/proc/{pid}/stat').read_bytes": KERNEL,
    "read/formats/xplane/layout.py walk": NO_PATH,
    "read/formats/xplane/run.py path.parent.glob": SEARCH,
    "read/inputs/torch_npu.py folder.iterdir": SEARCH,
    "read/shared/chrome_json/document.py self._walker().walk": NO_PATH,
    "read/shared/database_file.py sqlite3.connect": DATABASE,
    "read/shared/parquet.py pq.ParquetFile": NO_PATH,
    "read/inputs/folders.py os.scandir": THE_FUNCTIONS,
    "read/inputs/memory.py path.read_text": KERNEL,
    "read/inputs/pipes.py os.open": THE_FUNCTIONS,
    "read/inputs/reading.py kind.open": NO_PATH,
    "read/inputs/remote/client.py store.glob": NO_PATH,
    "read/inputs/remote/web.py target.open": OWN,
    "read/inputs/within.py os.open": THE_FUNCTIONS,
    "read/inputs/zip_archives.py archive.open": NO_PATH,
    "read/inputs/zip_archives.py zipfile.ZipFile": NO_PATH,
    "base/columns/code_cache.py described.open": KERNEL,
    "base/columns/code_cache.py _PACKAGE.glob": PACKAGE,
    "base/columns/code_cache.py folder.rglob": CACHE,
    "base/columns/code_cache.py open": CACHE,
    "base/columns/code_cache.py os.open": CACHE,
    "base/columns/code_cache.py path.read_bytes": CACHE,
    "base/columns/trusted.py os.open": CACHE,
    "base/regular_files.py open": THE_FUNCTIONS,
    "base/regular_files.py os.open": THE_FUNCTIONS,
    "show/html/page.py (_TEMPLATES / name).read_text": PACKAGE,
    "apps/serve/pages.py (_REPORT / 'style.css').read_text": PACKAGE,
    "apps/serve/pages.py (_TEMPLATES / name).read_text": PACKAGE,
    "apps/serve/removal.py os.open": "folders alone, without following links",
    "apps/serve/store.py sqlite3.connect": CACHE,
    "trace/store.py pq.ParquetFile": NO_PATH,
    "trace/store.py self._zip.open": NO_PATH,
    "trace/store.py zipfile.ZipFile": "a file in memory, or one that is written for the user",
    "api/trace_ready.py Path('/proc/stat').read_text": KERNEL,
    "api/trace_ready.py Path(f'/proc/{os.getppid()}/stat').read_text": KERNEL,
    "predict/calibration.py file.read_bytes": PACKAGE,
    "base/whole_files.py open": WRITTEN,
    "base/whole_files.py os.open": WRITTEN,
}


def opened_in(source, *, lists=True):
    """Calls in some code that open or list files, as source text."""
    names = READS | LISTS if lists else READS
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in names:
                yield ast.unparse(function)


@cache
def all_opened():
    """All such calls in the package; in `stepwhy.record`, only those that read."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        lists = not place.startswith(("record/", "apps/top/"))
        found |= {f"{place} {call}" for call in opened_in(path.read_text(), lists=lists)}
    return found


def test_every_other_open_has_a_reason():
    """A new one is justified in `REASONS`, or reads through `stepwhy.read.inputs`."""
    assert sorted(all_opened() - set(REASONS)) == []


def test_every_reason_is_used():
    assert sorted(set(REASONS) - all_opened()) == []


CALLS = (
    "open('x')", "path.open('rb')", "os.open(p, 0)", "(a / 'b').read_bytes()", "os.scandir(p)",
    "Path(p).read_text()", "sqlite3.connect(p)", "zipfile.ZipFile(p)", "np.fromfile(p)",
)  # fmt: skip


@pytest.mark.parametrize("code", CALLS)
def test_open_is_detected(code):
    assert len(list(opened_in(code))) == 1
