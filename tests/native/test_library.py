"""Compiled kernels: where they are kept, and what happens while there are none."""

import gc
import importlib
import os
import shutil
import subprocess
import sys
from types import ModuleType

import pytest

from stepwhy import native
from stepwhy.native import build, code, library, store
from stepwhy.native.catalogue import KERNELS

CACHED = (store.folder, store.library_file, library._addresses, library.kernel)


@pytest.fixture
def afresh(monkeypatch):
    monkeypatch.setattr(library, "_can_compile", lambda: True)
    for cached in CACHED:
        cached.cache_clear()
    yield monkeypatch
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture
def empty_cache(tmp_path, afresh):
    afresh.setenv("STEPWHY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_all_kernels_are_compiled_and_load(kernels):
    assert all(kernels(name) is not None for name in KERNELS)


def test_there_is_none_before_it_is_compiled(empty_cache):
    assert all(library.kernel(name) is None for name in KERNELS)
    assert not empty_cache.exists()


@pytest.mark.usefixtures("kernels")
def test_there_is_none_where_the_user_wants_none(monkeypatch):
    monkeypatch.setenv("STEPWHY_NATIVE", "0")
    library._addresses.cache_clear()
    library.kernel.cache_clear()
    try:
        assert library.kernel("scan_records") is None
    finally:
        library._addresses.cache_clear()
        library.kernel.cache_clear()


@pytest.mark.parametrize("kind", [0, 1])
def test_a_damaged_file_is_as_good_as_none(empty_cache, kind):
    empty_cache.mkdir()
    whole = store.sealed(b"\x7fELF and then nothing")
    store.files()[kind].write_bytes(whole[1:])
    assert library.kernel("scan_records") is None


def test_a_file_of_something_else_is_as_good_as_none(empty_cache):
    empty_cache.mkdir()
    store.library_file().write_bytes(store.sealed(b"no library"))
    assert library.kernel("scan_records") is None


def test_what_does_not_load_is_not_published(empty_cache, monkeypatch):
    empty_cache.mkdir()
    monkeypatch.setattr(code, "emitted", lambda **_: b"no object code")
    with pytest.raises(RuntimeError, match="do not load"):
        build.publish()
    assert list(empty_cache.iterdir()) == []


@pytest.fixture(scope="module")
def an_object():
    return code.emitted(for_linker=False)


@pytest.mark.parametrize("linker", [None, "/no/linker", shutil.which("false")])
def test_where_there_is_no_linker_the_object_is_loaded(empty_cache, monkeypatch, an_object, linker):
    empty_cache.mkdir()
    monkeypatch.setattr(code, "linker", lambda: linker)
    monkeypatch.setattr(code, "emitted", lambda **_: an_object)
    assert build.publish() == store.files()[1]
    assert [path.suffix for path in empty_cache.iterdir()] == [".o"]
    walk = library.kernel("walk_fields")
    assert walk is not None
    assert all(library.kernel(name) is not None for name in KERNELS)


def test_where_the_library_may_not_be_run_the_object_is_loaded(empty_cache, an_object):
    empty_cache.mkdir()
    store.files()[1].write_bytes(store.sealed(an_object))
    store.library_file().write_bytes(store.sealed(b"from a folder mounted with noexec"))
    assert library.kernel("scan_records") is not None


def test_a_damaged_file_is_made_again(empty_cache, monkeypatch, an_object):
    empty_cache.mkdir()
    store.library_file().write_bytes(b"torn")
    monkeypatch.setattr(code, "linker", lambda: None)
    monkeypatch.setattr(code, "emitted", lambda **_: an_object)
    assert build.main([]) == 0
    assert library.kernel("scan_records") is not None


@pytest.mark.skipif(code.linker() is None, reason="needs a linker")
def test_where_there_is_a_linker_the_compiler_is_not_loaded(kernels):
    assert kernels("scan_records")
    assert store.library_file().exists()
    program = (
        "import sys; from stepwhy.native import kernel; assert kernel('scan_records');"
        "assert 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_elsewhere_than_on_linux_no_linker_is_asked(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert code.linker() is None


def test_an_entry_of_numba_that_is_not_found_is_an_error():
    text = "define i64 @cfunc.one(i64 %.1) {\n  ret i64 0\n}\ndeclare void @other()\n"
    assert code._without(text, "cfunc.one") == "\ndeclare void @other()\n"
    with pytest.raises(RuntimeError, match=r"cfunc\.two is not where"):
        code._without(text, "cfunc.two")


def test_what_is_there_is_not_compiled_again(kernels, monkeypatch):
    assert kernels("scan_records")
    monkeypatch.setattr(code, "emitted", pytest.fail)
    assert build.main([]) == 0
    assert store.claim()
    assert build.main(["--claimed"]) == 0
    assert store.claim()  # given back
    store.release()


@pytest.mark.usefixtures("empty_cache")
def test_one_process_compiles_at_a_time():
    assert store.claim()
    assert not store.claim()
    store.release()
    assert store.claim()


def test_a_compiler_that_died_blocks_nobody_for_long(empty_cache):
    assert store.claim()
    os.utime(empty_cache / "compiling", (0, 0))
    assert store.claim()


@pytest.mark.usefixtures("empty_cache")
def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    library.prepare()
    assert library.kernel("scan_records") is None


def test_a_user_without_a_home_is_no_error(afresh):
    for name in ("STEPWHY_CACHE", "LOCALAPPDATA", "XDG_CACHE_HOME"):
        afresh.delenv(name, raising=False)
    afresh.setattr(os.path, "expanduser", lambda path: path)  # as for an unknown user
    with pytest.raises(OSError, match="STEPWHY_CACHE"):
        store.folder()
    assert library.find_kernels("scan_records") == []


@pytest.mark.usefixtures("empty_cache")
def test_a_cold_cache_starts_one_compiler(monkeypatch):
    started = []

    class Started:
        def __init__(self, command, **_):
            started.append(command)

    monkeypatch.setattr(subprocess, "Popen", Started)
    assert library.find_kernels("scan_records") == []
    assert library.find_kernels("scan_records") == []
    assert started == [[sys.executable, "-P", "-m", "stepwhy.native.build", "--claimed"]]


@pytest.mark.usefixtures("empty_cache")
def test_nobody_is_warned_of_a_compiler_that_is_not_waited_for(monkeypatch, recwarn):
    ended = str(shutil.which("true"))
    monkeypatch.setattr(sys, "executable", ended)
    library.prepare()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.usefixtures("kernels")
def test_kernels_do_not_import_the_compiler():
    code = (
        "import sys; from stepwhy.native import kernel; assert kernel('scan_records');"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_of_the_compiler_hide_no_function_of_the_package():
    importlib.import_module("stepwhy.native.kernels.wire")
    assert all(not isinstance(getattr(native, name), ModuleType) for name in native.__all__)
