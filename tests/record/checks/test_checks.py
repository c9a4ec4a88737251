"""The checks of `stepwhy check`, with artificial machines and real interpreters."""

from __future__ import annotations

import json
import os
import shutil
import sys
import venv
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepwhy.record.checks import Machine, check, conflicts, frameworks, gpu, host, storage
from stepwhy.record.checks.host import Reading
from stepwhy.record.checks.item import Item, Report
from stepwhy.record.checks.target import target_of

PLENTY = 1 << 40
NONE = dict.fromkeys(["tensorflow", "keras", "torch", "jax"])
AWAITED = ["tensorflow.python.client.session", "torch.optim.optimizer"]


def no_library(name: str) -> object:
    raise OSError(name)


def disk(free: int, files: int = 100, files_left: int = 50):
    state = SimpleNamespace(f_bavail=free, f_frsize=1, f_files=files, f_favail=files_left)
    return lambda _path: state


@pytest.fixture
def machine(tmp_path):
    """A quiet machine with four cores, all of them usable, and no GPU."""

    def make(files=None, **changed):
        given = {"proc/loadavg": "0.10 0.1 0.1 1/99 7", "proc/self/status": "TracerPid:\t0\n"}
        for name, text in (given | (files or {})).items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        options = {
            "root": tmp_path / "root",
            "environ": {},
            "cores": 4,
            "all_cores": 4,
            "file_system": disk(PLENTY),
            "load_library": no_library,
        }
        return Machine(**(options | changed))

    return make


def states(items):
    return {item.name: item.state for item in items}


def named(report, name):
    return next(item for item in report.items if item.name == name)


# --- Real interpreters ---


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """An interpreter without stepwhy and without frameworks."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin/python"


def test_the_observer_is_loaded_in_a_child(machine, bare_python):
    report = check([str(bare_python)], machine=machine())
    attach = named(report, "attach")
    assert attach.state == "ok"
    assert attach.found.startswith("observer loaded in a child after ")


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("-I", "Python is started with -I (isolated)"),
        ("-E", "Python is started with -E (ignores the environment)"),
        ("-S", "Python is started with -S (no site)"),
    ],
)
def test_python_that_ignores_the_observer_is_reported(machine, bare_python, flag, found):
    report = check([str(bare_python), flag, "-c", "pass"], machine=machine())
    attach = named(report, "attach")
    assert (attach.state, attach.found) == ("missing", found)
    assert attach.todo.endswith(f"without {flag}")
    assert not report.observable


@pytest.mark.parametrize("flags", [["-P"], ["-s"], ["-u", "-X", "utf8", "-W", "ignore"]])
def test_other_options_do_not_prevent_observation(machine, bare_python, flags):
    report = check([str(bare_python), *flags, "-c", "pass"], machine=machine())
    assert named(report, "attach").state == "ok"


def test_hidden_user_site_is_reported(machine, bare_python, monkeypatch):
    command = [str(bare_python), "-c", "pass"]
    assert "user-site" not in states(check(command, machine=machine()).items)
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert named(check(command, machine=machine()), "user-site").state == "limited"


def test_an_interpreter_without_frameworks_cannot_train(machine, bare_python):
    report = check([str(bare_python)], machine=machine())
    item = named(report, "frameworks")
    assert item.state == "missing"
    assert item.found == "TensorFlow, Keras, PyTorch, JAX not installed"
    assert not report.observable


def add_framework(python, name, version):
    """Install a fake framework that fails when it is imported."""
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    (packages / name).mkdir()
    (packages / name / "__init__.py").write_text("raise RuntimeError('imported')")
    about = packages / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_a_framework_is_found_without_importing_it(machine, tmp_path):
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env/bin/python"
    add_framework(python, "torch", "9.8.7")
    report = check([str(python)], machine=machine())
    assert named(report, "pytorch-loops").state == "ok"
    assert named(report, "pytorch-loops").found == "PyTorch 9.8.7"
    assert report.observable


def test_own_sitecustomize_is_reported_and_loaded(machine, bare_python, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('hello')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = check([str(bare_python)], machine=machine())
    assert named(report, "attach").state == "ok"
    assert named(report, "sitecustomize").state == "ok"


def test_sitecustomize_that_ends_python_is_reported(machine, bare_python, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(7)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    python = named(check([str(bare_python)], machine=machine()), "python")
    assert python.state == "missing"
    assert python.found.endswith("it ended with exit code 7")


def test_old_python_is_reported(machine, tmp_path):
    """A program that prints the output of the probe in Python 3.9, without the bootstrap."""
    answer = {
        "version": [3, 9, 18],
        "awaited": None,
        "isolated": False,
        "no_user_site": False,
        "sitecustomize": None,
        "frameworks": NONE,
    }
    python = tmp_path / "python3.9"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    python.chmod(0o755)
    report = check([str(python)], machine=machine())
    assert named(report, "python").state == "missing"
    assert report.obstacle.startswith("Python 3.9.18, ")
    assert report.obstacle.endswith("/python3.9, is too old")
    assert named(report, "python").todo == "Train with Python 3.11 or later"
    assert not report.observable


def test_missing_script_is_reported(machine):
    report = check([sys.executable, "no/such/train.py"], machine=machine())
    assert named(report, "script").found == "there is no file no/such/train.py"
    assert not report.observable


def test_missing_program_is_reported(machine):
    report = check(["no-such-program-xyz"], machine=machine())
    assert report.obstacle == "there is no program no-such-program-xyz on the path"
    assert "attach" not in states(report.items)
    assert not report.observable


def test_command_without_a_visible_python_has_no_verdict(machine):
    report = check(["/bin/sh", "train.sh"], machine=machine())
    assert named(report, "attach").state == "limited"
    assert report.observable
    assert "python" not in states(report.items)


def test_no_files_are_left(machine, bare_python, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {path.name for path in tmp_path.iterdir()}
    check([str(bare_python)], machine=machine())
    assert {path.name for path in tmp_path.iterdir()} - before == {"root"}


# --- Which Python a command starts ---


@pytest.fixture
def program(tmp_path):
    def make(text, name="tool"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return make


def which(word):
    """Finds every program: files at their path, names in one folder."""
    return word if "/" in word else f"/bin/{word}"


@pytest.mark.parametrize(
    ("text", "interpreter", "flags"),
    [
        ("#!/env/bin/python3.11\n", "/env/bin/python3.11", ()),
        ("#!/env/bin/python3 -I\n", "/env/bin/python3", ("-I",)),
        ("#!/usr/bin/env python3\n", "/bin/python3", ()),
        ("#!/usr/bin/env -S python3 -X utf8 -E\n", "/bin/python3", ("-X", "utf8", "-E")),
        ("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n' '''\n", "/a b/python", ()),
        ("#!/bin/sh\n'''exec' /long/python3 \"$0\" \"$@\"\n' '''\n", "/long/python3", ()),
        ("#!/bin/bash\npython train.py\n", None, ()),
        ("\x7fELF", None, ()),
        ("", None, ()),
    ],
)
def test_the_python_behind_a_program(program, text, interpreter, flags):
    target = target_of([program(text), "train.py"], which)
    assert (target.interpreter, target.flags) == (interpreter, flags)


@pytest.mark.parametrize(
    ("command", "flags", "script"),
    [
        (["python", "train.py", "-I"], (), "train.py"),
        (["python3.12", "-u", "-m", "pkg.train", "-E"], ("-u",), None),
        (["python", "-W", "error", "-X", "dev", "a.py"], ("-W", "error", "-X", "dev"), "a.py"),
        (["python", "-Ic", "pass"], ("-Ic",), "pass"),
        (["python"], (), None),
    ],
)
def test_the_options_of_python(command, flags, script):
    target = target_of(command, which)
    assert (target.flags, target.script) == (flags, script)


def test_a_python_behind_a_launcher(program):
    launcher = program("\x7fELF", "mpirun")
    target = target_of([launcher, "-np", "4", "python3", "-u", "train.py"], which)
    assert target.wrapper == "mpirun"
    assert (target.interpreter, target.flags, target.script) == (
        "/bin/python3",
        ("-u",),
        "train.py",
    )


def test_what_a_launcher_starts_is_limited(machine):
    report = check(["/bin/sh", "-c", sys.executable], machine=machine())
    attach = named(report, "attach")
    assert attach.state == "limited"
    assert attach.found.endswith("but sh starts it")


# --- Frameworks and their profilers ---


def installed(**folders):
    return NONE | {name: {"folder": str(f), "version": "1.0"} for name, f in folders.items()}


def test_loops_are_observed_if_the_observer_waits_for_them():
    found = installed(tensorflow="/tf", keras="/k", torch="/t", jax="/j")
    assert states(frameworks.loop_items(found, AWAITED)) == {
        "tf1-sessions": "ok",
        "tf2-loops": "missing",
        "keras-fit": "missing",
        "pytorch-loops": "ok",
        "jax-loops": "missing",
    }
    more = ["keras.src.optimizers.base_optimizer", "keras.src.trainers.trainer", "jax._src.pjit"]
    assert set(states(frameworks.loop_items(found, [*AWAITED, *more])).values()) == {"ok"}
    assert states(frameworks.loop_items(found, ["jaxtyping"]))["jax-loops"] == "missing"


def test_no_loop_is_observed_without_the_observer():
    items = list(frameworks.loop_items(installed(torch="/t"), None))
    assert states(items) == {"pytorch-loops": "missing", "frameworks": "missing"}


def torch_folder(packages, version, kineto=True):
    folder = packages / "torch"
    (folder / ("include/kineto" if kineto else "include")).mkdir(parents=True)
    (folder / "version.py").write_text(version)
    return folder


CUDA = "__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
CPU = "cuda: Optional[str] = None\nhip: Optional[str] = None\n"
ROCM = "cuda = None\nhip = '6.2.41133-dd7f95766'\n"


@pytest.mark.parametrize(
    ("version", "build"), [(CUDA, "CUDA 12.8"), (CPU, "CPU"), (ROCM, "ROCm 6.2.41133")]
)
def test_build_of_torch(tmp_path, machine, version, build):
    found = installed(torch=torch_folder(tmp_path, version))
    (item,) = frameworks.profiler_items(found, machine())
    assert (item.state, item.found) == ("ok", f"Kineto, {build} build")


def test_a_torch_without_kineto(tmp_path, machine):
    found = installed(torch=torch_folder(tmp_path, CPU, kineto=False))
    (item,) = frameworks.profiler_items(found, machine())
    assert item.state == "limited"


def test_a_cpu_build_beside_a_gpu_is_limited(tmp_path, machine):
    found = installed(torch=torch_folder(tmp_path, CPU))
    (item,) = frameworks.profiler_items(found, machine({"dev/nvidia0": ""}))
    assert (item.state, item.meaning) == ("limited", "the training runs on the CPU")


def test_kernels_need_cupti(tmp_path, machine):
    found = installed(torch=torch_folder(tmp_path, CUDA))
    with_gpu = machine({"dev/nvidia0": ""})
    (item,) = frameworks.profiler_items(found, with_gpu)
    assert item.found == "Kineto, CUDA 12.8 build, but no CUPTI beside it"
    library = tmp_path / "nvidia/cuda_cupti/lib/libcupti.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    (item,) = frameworks.profiler_items(found, with_gpu)
    assert (item.state, item.meaning) == ("ok", "operators and kernels are traced")


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("[('cuda_version', '12.5.1'), ('is_cuda_build', True)]", "CUDA 12.5.1"),
        ("[('is_cuda_build', False), ('is_rocm_build', True)]", "ROCm"),
        ("[('is_cuda_build', False), ('is_rocm_build', False)]", "CPU"),
        (None, "CPU"),
    ],
)
def test_build_of_tensorflow(tmp_path, machine, text, build):
    info = tmp_path / "tensorflow/python/platform/build_info.py"
    info.parent.mkdir(parents=True)
    if text:
        info.write_text(text)
    (item,) = frameworks.profiler_items(installed(tensorflow=tmp_path / "tensorflow"), machine())
    assert item.found == f"run-time tracer, {build} build"


# --- Accelerators ---

NVIDIA = {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""}
RESTRICTED = NVIDIA | {"proc/driver/nvidia/params": "EnableMSI: 1\nRmProfilingAdminOnly: 1\n"}


def test_no_accelerator(machine):
    assert states(gpu.items(machine())) == {"gpu": "missing"}
    assert gpu.gpus(machine()) == 0


def test_nvidia_gpus_are_counted(machine):
    with_gpus = machine(NVIDIA, load_library=lambda name: name)
    item, nvml, counters = gpu.items(with_gpus)
    assert (item.state, item.found) == ("ok", "2 NVIDIA GPUs")
    assert nvml.state == "ok"
    assert counters.state == "limited"  # the driver does not report it


def test_without_the_management_library_gpu_memory_is_missing(machine):
    assert states(gpu.items(machine(NVIDIA)))["nvml"] == "missing"


@pytest.mark.parametrize(
    ("capabilities", "state"),
    [("0000000000000000", "limited"), ("0000000000200000", "ok"), ("0000004000000000", "ok")],
)
def test_counters_for_administrators_only(machine, capabilities, state):
    status = {"proc/self/status": f"TracerPid:\t0\nCapEff:\t{capabilities}\n"}
    assert states(gpu.items(machine(RESTRICTED | status)))["gpu-counters"] == state


def test_counters_for_everybody(machine):
    everybody = NVIDIA | {"proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n"}
    assert states(gpu.items(machine(everybody)))["gpu-counters"] == "ok"


@pytest.mark.parametrize("value", ["", "-1"])
def test_hidden_gpus_are_limited(machine, value):
    item = next(gpu.items(machine(NVIDIA, environ={"CUDA_VISIBLE_DEVICES": value})))
    assert (item.state, item.found) == ("limited", "2 NVIDIA GPUs, hidden by CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(("accessible", "state"), [(True, "ok"), (False, "limited")])
def test_amd_driver_without_permission(machine, accessible, state):
    amd = machine({"dev/kfd": ""}, is_accessible=lambda _path: accessible)
    assert states(gpu.items(amd)) == {"gpu": state}
    assert gpu.gpus(amd) == 1


# --- Conflicts ---


def test_no_conflicts(machine):
    assert states(conflicts.items(machine())) == {"other-profilers": "ok"}


@pytest.mark.parametrize(
    ("variable", "name", "state"),
    [
        ("CUDA_INJECTION64_PATH", "other-profilers", "conflict"),
        ("NVPROF_ID", "other-profilers", "conflict"),
        ("KINETO_USE_DAEMON", "remote-traces", "conflict"),
        ("STEPWHY_RUN_DIR", "outer-run", "conflict"),
        ("CUDA_LAUNCH_BLOCKING", "slow-settings", "conflict"),
        ("PYTHONPROFILEIMPORTTIME", "slow-start", "limited"),
    ],
)
def test_variable_in_conflict_is_named_without_its_value(machine, variable, name, state):
    (item,) = conflicts.items(machine(environ={variable: "sesame-open"}))
    assert (item.name, item.state) == (name, state)
    assert variable in item.found
    assert "sesame" not in str(item)


def test_one_tool_with_several_variables_is_one_item(machine):
    environ = {"NSYS_PROFILING_SESSION_ID": "1", "CUDA_INJECTION64_PATH": "/opt/x.so"}
    (item,) = conflicts.items(machine(environ=environ))
    assert item.found.startswith("Nsight Systems (NSYS_PROFILING_SESSION_ID), ")


@pytest.mark.parametrize("variable", ["CUDA_LAUNCH_BLOCKING", "PYTHONTRACEMALLOC"])
def test_a_setting_that_is_off_is_no_conflict(machine, variable):
    assert states(conflicts.items(machine(environ={variable: "0"}))) == {"other-profilers": "ok"}


@pytest.mark.parametrize(
    ("preload", "found"),
    [
        ("/usr/lib/libasan.so.8", ["AddressSanitizer (LD_PRELOAD)"]),
        ("/a/libjemalloc.so:/b/libcuinj64.so.12", ["an injected CUDA tool (LD_PRELOAD)"]),
        ("/usr/lib/libtcmalloc.so.4", ["none in the environment"]),
    ],
)
def test_preloaded_tools(machine, preload, found):
    items = conflicts.items(machine(environ={"LD_PRELOAD": preload}))
    assert [item.found for item in items] == found


def test_tracer_is_a_conflict(machine):
    traced = machine({"proc/self/status": "Name:\tsh\nTracerPid:\t41\n"})
    assert states(conflicts.items(traced)) == {"tracer": "conflict"}


# --- Storage ---


@pytest.mark.parametrize(
    ("free", "state"), [(PLENTY, "ok"), (100_000_000, "limited"), (1_000_000, "missing")]
)
def test_the_disk_may_be_full(machine, tmp_path, free, state):
    item = storage.run_directory(machine(file_system=disk(free)), tmp_path / "a/b")
    assert (item.state, item.need) == (state, "must")
    assert not (tmp_path / "a").exists()


def test_disk_with_space_but_without_free_files(machine, tmp_path):
    item = storage.run_directory(machine(file_system=disk(PLENTY, files_left=0)), tmp_path)
    assert (item.state, item.found) == ("missing", "no file can be added")
    without_limit = machine(file_system=disk(PLENTY, files=0, files_left=0))
    assert storage.run_directory(without_limit, tmp_path).state == "ok"


def test_file_in_place_of_the_run_directory(machine, tmp_path):
    (tmp_path / "file").touch()
    item = storage.run_directory(machine(), tmp_path / "file/run")
    assert item.state == "missing"


def test_no_training_is_observable_with_a_full_disk(machine):
    report = check(machine=machine(file_system=disk(0)))
    assert not report.observable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_read_only(machine, tmp_path):
    tmp_path.chmod(0o500)
    item = storage.run_directory(machine(), tmp_path / "runs")
    tmp_path.chmod(0o700)
    assert item.state == "missing"


@pytest.mark.parametrize(("free", "state"), [(64 << 20, "limited"), (PLENTY, "ok")])
def test_shared_memory_may_be_small(machine, free, state):
    assert storage.shared_memory(machine(file_system=disk(free))).state == state


# --- The host ---


@pytest.mark.parametrize(("mean", "state"), [("1.1", "ok"), ("1.3", "limited")])
def test_a_busy_machine_is_noisy(machine, mean, state):
    assert host.load(machine({"proc/loadavg": f"{mean} 9 9 1/9 1"})).state == state


def test_a_system_without_a_load_is_not_called_quiet(tmp_path):
    assert host.load(Machine(root=tmp_path)).state == "limited"


GROUP = {"proc/self/cgroup": "0::/job/step\n"}


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, "1.5"),
        (GROUP | {"sys/fs/cgroup/job/cpu.max": "200000 100000"}, "2"),
        (
            GROUP
            | {
                "sys/fs/cgroup/job/step/cpu.max": "max 100000",
                "sys/fs/cgroup/job/cpu.max": "100000 100000",
            },
            "1",
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            "0.5",
        ),
    ],
)
def test_a_cpu_limit_below_the_visible_cores(machine, files, allowed):
    item = host.cpu_limit(machine(files))
    assert item.state == "limited"
    assert item.found == f"4 cores are visible, but a cgroup allows {allowed}"
    assert item.todo.startswith(f"Set OMP_NUM_THREADS={max(1, int(float(allowed)))},")


@pytest.mark.parametrize("text", ["max 100000", "400000 100000", "nonsense"])
def test_no_cpu_limit_below_the_visible_cores(machine, text):
    assert host.cpu_limit(machine({"sys/fs/cgroup/cpu.max": text})).state == "ok"


def test_cpu_limit_with_a_matching_thread_setting(machine):
    limit = {"sys/fs/cgroup/cpu.max": "200000 100000"}
    assert host.cpu_limit(machine(limit, environ={"OMP_NUM_THREADS": "2"})).state == "ok"
    assert host.cpu_limit(machine(limit, environ={"OMP_NUM_THREADS": "4"})).state == "limited"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"proc/self/schedstat": "123 45 6\n"}, "ok"),
        ({"proc/self/schedstat": "0 0 0\n"}, "missing"),
        ({}, "missing"),
    ],
)
def test_missing_run_delay(machine, files, state):
    assert host.run_delay(machine(files)).state == state


SYS_PTRACE = "CapEff:\t0000000000080000\n"


@pytest.mark.parametrize(
    ("scope", "status", "state"),
    [
        (None, "", "ok"),
        ("0", "", "ok"),
        ("1", "", "ok"),  # the observed processes name the reader
        ("1", SYS_PTRACE, "ok"),
        ("2", "", "limited"),
        ("3", SYS_PTRACE, "missing"),
    ],
)
def test_stack_access(machine, scope, status, state):
    files = {"proc/self/status": status}
    if scope:
        files["proc/sys/kernel/yama/ptrace_scope"] = f"{scope}\n"
    assert host.stack_access(machine(files), Path("py-spy")).state == state


def test_missing_py_spy(machine):
    item = host.stack_access(machine({"proc/self/status": ""}), None)
    assert (item.state, item.found) == ("missing", "py-spy is not installed")


@pytest.mark.parametrize(
    ("last", "cost_ns", "state"),
    [
        (Reading(1_000_000_500, 500), 50, "ok"),
        (Reading(1_002_000_500, 500), 50, "limited"),  # set forward by 2 ms
        (Reading(998_000_500, 500), 50, "limited"),  # set back
        (Reading(1_000_000_500, 500), 4_000, "limited"),
    ],
)
def test_clocks_that_drift_or_are_slow(last, cost_ns, state):
    assert host.clock(Reading(1_000_000_000, 0), last, cost_ns).state == state


def test_cost_of_reading_the_clock():
    assert 1 < host.read_cost_ns() < 100_000


# --- The report ---


def item(state, need="none", found=""):
    return Item("x", state, found, "", need=need)


@pytest.mark.parametrize(
    ("items", "observable"),
    [
        ([item("ok", "must"), item("missing", "any"), item("ok", "any")], True),
        ([item("missing", "must"), item("ok", "any")], False),
        ([item("ok", "must"), item("missing", "any")], False),
        ([item("ok", "must")], False),
        ([item("missing"), item("conflict"), item("limited", "any")], True),
    ],
)
def test_what_makes_a_training_observable(items, observable):
    assert Report((), tuple(items)).observable is observable


@pytest.mark.parametrize(
    ("items", "obstacle"),
    [
        ([item("missing", "any", "a"), item("missing", "must", "b"), item("missing")], "b"),
        ([item("ok", "must", "a"), item("missing", "any", "b"), item("missing", "any", "c")], "b"),
        ([item("ok", "any", "a"), item("missing", "none", "b")], ""),
    ],
)
def test_first_obstacle_is_reported(items, obstacle):
    assert Report((), tuple(items)).obstacle == obstacle


def test_the_command_is_redacted(machine):
    command = [sys.executable, "-c", "pass", "--token=hunter2", "/home/jane/data/set"]
    text = json.dumps(check(command, machine=machine()).as_dict())
    assert "hunter2" not in text
    assert "jane" not in text
    assert str(Path.home()) not in text
    assert str(Path(shutil.which(sys.executable)).parent.parent) not in text
