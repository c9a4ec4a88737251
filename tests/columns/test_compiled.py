"""Compiled kernels: where they are stored, and what happens while they are missing."""

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from stepwhy.base.columns import code_cache, compiled
from stepwhy.base.columns import compile as compiler

ROWS = "stepwhy.base.columns.kernels.rows"
CACHED = (code_cache.user_cache, code_cache.code_folder, compiled.load)


@pytest.fixture
def afresh(monkeypatch):
    """Reset what was loaded and refused; a compiler is installed."""
    monkeypatch.setattr(compiled, "can_compile", lambda: True)
    monkeypatch.setattr(compiled, "_REFUSALS", [])
    for cached in CACHED:
        cached.cache_clear()
    yield monkeypatch
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture
def empty_cache(tmp_path, afresh):
    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    afresh.setattr(compiled, "prepare", lambda: None)
    return tmp_path / "cache"


@pytest.fixture
def copied_cache(kernels, tmp_path, afresh):
    """The folder of compiled code in a copy of the cache, which a test may damage."""
    assert kernels(ROWS)
    shutil.copytree(code_cache.code_folder(), tmp_path / "cache" / code_cache.code_folder().name)
    (tmp_path / "cache").chmod(0o700)
    for cached in CACHED:
        cached.cache_clear()
    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    afresh.setattr(compiled, "prepare", lambda: None)
    return code_cache.code_folder()


def test_all_kernels_are_compiled_and_load(kernels):
    modules = [compiler._module_name(path) for path in code_cache.sources()]
    assert ROWS in modules
    assert all(kernels(module) is not None for module in modules)


def test_each_installation_has_its_own_folder(tmp_path, afresh):
    """Otherwise numba would compile during an analysis: it compares paths and times of sources."""
    folders = set()
    for name, time_ns in (("a.py", 1), ("a.py", 2), ("b.py", 2)):
        source = tmp_path / name
        source.write_bytes(b"pass")
        os.utime(source, ns=(time_ns, time_ns))
        afresh.setattr(code_cache, "sources", lambda source=source: [source])
        code_cache.code_folder.cache_clear()
        folders.add(code_cache.code_folder())
    assert len(folders) == 3


def test_load_returns_none_before_compilation(empty_cache):
    assert compiled.load(ROWS) is None
    assert not empty_cache.exists()


def test_load_returns_none_if_kernels_are_turned_off(copied_cache, monkeypatch):
    assert copied_cache.exists()
    monkeypatch.setenv("STEPWHY_NATIVE", "0")
    assert compiled.load(ROWS) is None


def test_kernels_are_loaded_only_for_many_rows(monkeypatch):
    monkeypatch.setattr(compiled, "load", lambda module: module)
    monkeypatch.setattr(compiled, "_STARTED", [])
    assert compiled.for_rows(compiled._MANY - 1, ROWS) is None
    assert compiled.for_rows(compiled._MANY, ROWS) == ROWS
    monkeypatch.setattr(compiled, "_STARTED", [ROWS])
    assert compiled.for_rows(compiled._FEW, ROWS) == ROWS


def test_scipy_is_not_imported_with_numba(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy", raising=False)
    monkeypatch.setattr(compiled, "active_count", lambda: 1)
    with compiled._without_scipy(), pytest.raises(ImportError):
        importlib.import_module("scipy")
    assert "scipy" not in sys.modules


def test_scipy_is_not_hidden_from_other_threads(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy", raising=False)
    monkeypatch.setattr(compiled, "active_count", lambda: 2)
    with compiled._without_scipy():
        assert "scipy" not in sys.modules


def some_file(folder, suffix):
    return next(path for path in sorted(folder.rglob("*")) if path.suffix == suffix)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".json"])
def test_damaged_files_are_not_used(copied_cache, suffix):
    assert compiled.load(ROWS) is not None
    compiled.load.cache_clear()
    path = some_file(copied_cache, suffix)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert compiled.load(ROWS) is None


@pytest.mark.parametrize("manifest", ["[]", "{}", '{"numba": "1", "files": {}}', "7"])
def test_invalid_manifest_is_not_used(copied_cache, manifest):
    (copied_cache / "manifest.json").write_text(manifest)
    assert compiled.load(ROWS) is None


def test_code_of_another_numba_version_is_not_used(copied_cache):
    path = copied_cache / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"numba": "0.1"}))
    assert compiled.load(ROWS) is None
    assert not compiler.is_compiled()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_cache_is_not_used(copied_cache):
    copied_cache.chmod(0o500)
    assert compiled.load(ROWS) is None


@pytest.mark.parametrize("name", ["NUMBA_DISABLE_JIT", "NUMBA_CPU_NAME", "NUMBA_OPT"])
def test_kernels_are_off_with_other_numba_settings(copied_cache, monkeypatch, name):
    assert copied_cache.exists()
    monkeypatch.setenv(name, "1")
    assert compiled.load(ROWS) is None


def test_settings_in_the_current_folder_are_not_read(copied_cache, monkeypatch, tmp_path):
    assert copied_cache.exists()
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: /elsewhere")
    monkeypatch.chdir(tmp_path)
    assert compiled.load(ROWS) is None


def test_numba_is_not_imported_from_the_current_folder(copied_cache, tmp_path):
    """Not even by a program whose import path begins there."""
    assert copied_cache.exists()
    (tmp_path / "numba.py").write_text("raise SystemExit('planted')")
    info = tmp_path / "planted-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: planted\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[numba_extensions]\ninit = planted:run\n")
    (tmp_path / "planted.py").write_text("raise SystemExit('planted')")
    program = (
        "import sys; sys.path.insert(0, ''); from stepwhy.base.columns import compiled;"
        f"assert compiled.load({ROWS!r}); assert sys.path[0] == ''"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=240)


def test_nothing_is_compiled_in_the_process_of_the_user(copied_cache):
    modules = [compiler._module_name(path) for path in code_cache.sources()]
    before = sorted(copied_cache.rglob("*"))
    program = (
        f"import sys; from stepwhy.base.columns import compiled; modules = {modules!r};"
        "found = [vars(compiled.load(module)).values() for module in modules];"
        "stats = [one.stats for names in found for one in names if hasattr(one, 'stats')];"
        "assert any(one.cache_hits for one in stats), stats;"
        "assert not any(one.cache_misses for one in stats), stats"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
    assert sorted(copied_cache.rglob("*")) == before


def test_the_command_imports_no_numba_for_a_small_file(kernels, tmp_path):
    assert kernels(ROWS)
    trace = tmp_path / "trace.json"
    trace.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]')
    program = (
        "import sys; from stepwhy.cli import cli;"
        f"cli(['explain', {str(trace)!r}, '--json'], standalone_mode=False);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=240
    )


def test_compiled_kernels_are_not_compiled_again(copied_cache, monkeypatch):
    assert copied_cache.exists()
    monkeypatch.setattr(compiler, "compile_all", pytest.fail)
    assert compiler.main([]) == 0
    assert code_cache.claim()
    assert compiler.main(["--claimed"]) == 0
    assert code_cache.claim()  # given back
    code_cache.release()


def test_new_version_replaces_old_code(empty_cache):
    with code_cache.draft() as folder:
        (folder / "old.nbi").write_bytes(b"old")
        code_cache.write_manifest(folder, "1")
        code_cache.publish(folder)
    with code_cache.draft() as folder:
        (folder / "new.nbi").write_bytes(b"new")
        code_cache.write_manifest(folder, "2")
        code_cache.publish(folder)
    assert code_cache.checked_version(code_cache.code_folder()) == "2"
    assert list(empty_cache.iterdir()) == [code_cache.code_folder()]


@pytest.mark.usefixtures("empty_cache")
def test_one_process_compiles_at_a_time():
    assert code_cache.claim()
    assert not code_cache.claim()
    code_cache.release()
    assert code_cache.claim()


def test_a_compiler_that_died_blocks_others_for_ten_minutes(empty_cache):
    assert code_cache.claim()
    os.utime(empty_cache / "compiling", (0, 0))
    assert code_cache.claim()


def test_read_only_home_is_no_error(tmp_path, afresh):
    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert compiled.load(ROWS) is None


def test_a_user_without_a_home_is_no_error(afresh):
    for name in ("STEPWHY_CACHE", "LOCALAPPDATA", "XDG_CACHE_HOME"):
        afresh.delenv(name, raising=False)
    afresh.setattr(os.path, "expanduser", lambda path: path)  # as for an unknown user
    with pytest.raises(OSError, match="STEPWHY_CACHE"):
        code_cache.code_folder()
    assert compiled.load(ROWS) is None


def test_a_cold_cache_starts_one_compiler(tmp_path, afresh):
    started = []

    class Started:
        def __init__(self, command, **_):
            started.append(command)

    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    afresh.setattr(subprocess, "Popen", Started)
    assert compiled.load(ROWS) is None
    assert compiled.load("stepwhy.read.formats.kineto.kernels.records") is None
    assert started == [[sys.executable, "-P", "-m", "stepwhy.base.columns.compile", "--claimed"]]


def test_background_compiler_causes_no_resource_warning(tmp_path, afresh, recwarn):
    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    afresh.setattr(sys, "executable", str(shutil.which("true")))
    compiled.prepare()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []
