"""Conversion of the output of py-spy to lines of the program by role."""

from __future__ import annotations

import pytest

from stepwhy.record.core.user_code import OBSERVER, UserFiles
from stepwhy.record.sampling.stack_lines import Place, count_samples, count_startup

ROOT = "/home/user/project"
PYTHON = "/usr/lib/python3.11"
PACKAGES = "/env/lib/python3.11/site-packages"
MAIN = f"thread (7): MainThread;<module> ({ROOT}/train.py:40)"
# A fork starts with the frames of its parent.
CHILD = f"BaseProcess._bootstrap ({PYTHON}/multiprocessing/process.py:314)"
GET = f"Queue.get ({PYTHON}/queue.py:171)"
WORK = f"_worker_loop ({PACKAGES}/torch/utils/data/_utils/worker.py:346)"


def counted(*lines, pid=7, observed=()):
    """Counts by role, line and package, and by the input pipeline that called the line."""
    found = count_samples("\n".join(lines), pid, UserFiles(ROOT), observed)
    return {(place[:4] if place.entry else place[:3]): count for place, count in found.items()}


def test_lines_of_the_main_thread():
    fft = f"fft ({PACKAGES}/numpy/core/fft.py:7)"
    assert counted(
        f"{MAIN};augment ({ROOT}/train.py:12);{fft} 30",
        f"{MAIN};augment ({ROOT}/train.py:13) 20",
        f"{MAIN};run ({PACKAGES}/tensorflow/x.py:1) 5",
        "thread (7);wait (/usr/lib/python3.12/threading.py:320) 4",
        "torn line (",
    ) == {
        ("driver", "train.py(12): augment", "numpy"): 30,
        ("driver", "train.py(13): augment", ""): 20,
        ("driver", "train.py(40): <module>", "tensorflow"): 5,
        ("driver", "", "python"): 4,
    }


def test_autograph_copy_counts_for_the_calling_line():
    copy = "tf__step (/tmp/__autograph_generated_filexyz.py:11)"
    package = f"autograph_wrapper ({PACKAGES}/tensorflow/python/eager/x.py:1)"
    found = counted(f"{MAIN};{package};{copy} 3", f"{MAIN};{package};{copy};{package} 4")
    assert found == {
        ("driver", "train.py(40): <module>", "python"): 3,
        ("driver", "train.py(40): <module>", "tensorflow"): 4,
    }


def test_kernels_that_inductor_has_compiled_are_of_pytorch():
    call = "call (/tmp/torchinductor_user/ab/cabc.py:90)"
    package = f"__call__ ({PACKAGES}/torch/_inductor/output_code.py:600)"
    found = counted(f"{MAIN};{package};{call} 5")
    assert found == {("driver", "train.py(40): <module>", "torch"): 5}


def test_empty_output():
    assert counted("") == {}


def record(*processes, thread, frames, count):
    """A stack in the output of py-spy with `--subprocesses`; processes are (id, command)."""
    path = ";".join(f'process {pid}:"{command}"' for pid, command in processes)
    return f"{path};thread ({thread}): MainThread;{frames} {count}"


JOB = (7, "python train.py")


def test_workers_are_child_processes_that_run_the_program():
    worker = (8, "python train.py")
    parent = f"<module> ({ROOT}/train.py:40);__iter__ ({PACKAGES}/torch/utils/data/x.py:1)"
    decode = f"{parent};{CHILD};{WORK};decode ({ROOT}/data.py:31)"
    waits = f"{parent};{CHILD};{WORK};poll ({PYTHON}/multiprocessing/connection.py:257)"
    feeder = f"_bootstrap ({PYTHON}/threading.py:1002);_feed ({PYTHON}/multiprocessing/queues.py:1)"
    assert counted(
        record(JOB, thread=7, frames=f"<module> ({ROOT}/train.py:41)", count=100),
        record(JOB, worker, thread=8, frames=decode, count=83),
        record(JOB, worker, thread=8, frames=waits, count=17),
        record(JOB, worker, thread=80, frames=feeder, count=100),
    ) == {
        ("driver", "train.py(41): <module>", ""): 100,
        ("worker", "data.py(31): decode", ""): 83,
        # The line of the parent that forked it is not a line of the worker.
        ("worker", "", "python"): 17,
    }


def test_an_idle_worker_counts_and_a_helper_of_the_interpreter_does_not():
    waits = f"{CHILD};{WORK};poll ({PYTHON}/multiprocessing/connection.py:257)"
    tracker = f"main ({PYTHON}/multiprocessing/resource_tracker.py:1)"
    assert counted(
        record(JOB, (8, "python"), thread=8, frames=waits, count=10),
        record(JOB, (9, "python"), thread=9, frames=tracker, count=10),
    ) == {("worker", "", "python"): 10}


def test_grandchildren_of_a_fork_server_are_workers():
    server = (8, "python -c from multiprocessing.forkserver import main; main(3, 4)")
    decode = f"main ({PYTHON}/multiprocessing/forkserver.py:1);{CHILD};f ({ROOT}/data.py:5)"
    assert counted(
        record(JOB, server, thread=8, frames=f"main ({PYTHON}/multiprocessing/x.py:1)", count=9),
        record(JOB, server, (9, server[1]), thread=9, frames=decode, count=6),
    ) == {("worker", "data.py(5): f", ""): 6}


def test_separately_sampled_process_is_not_a_worker():
    rank = record(JOB, (8, "python"), thread=8, frames=f"f ({ROOT}/a.py:1)", count=9)
    assert counted(rank, observed={7, 8}) == {}
    assert counted(rank, observed={7}) == {("worker", "a.py(1): f", ""): 9}


def test_a_command_of_several_lines_is_part_of_the_record():
    command = "python -c import a; b()\n\nprint(1)"
    own = f"<module> ({ROOT}/a.py:1)"
    assert counted(
        record((7, command), thread=7, frames=own, count=3),
        record((7, command), (8, command), thread=8, frames=f"{CHILD};f ({ROOT}/b.py:2)", count=4),
        record((7, command), thread=7, frames=own, count=5),
    ) == {("driver", "a.py(1): <module>", ""): 8, ("worker", "b.py(2): f", ""): 4}


def test_other_threads_count_that_run_the_program():
    loop = f"_bootstrap ({PYTHON}/threading.py:1);produce ({ROOT}/data.py:9)"
    assert counted(
        f"thread (70): Thread-1 (produce);{loop} 60",
        f"thread (70): Thread-1 (produce);{loop};put ({PYTHON}/queue.py:140) 40",
        f"thread (71): tqdm_monitor;run ({PACKAGES}/tqdm/_monitor.py:60) 100",
    ) == {
        ("thread", "data.py(9): produce", ""): 60,
        ("thread", "data.py(9): produce", "threading"): 40,
    }


FETCH = f"fetch ({PACKAGES}/torch/utils/data/_utils/fetch.py:54)"
PY_FUNC = f"__call__ ({PACKAGES}/tensorflow/python/ops/script_ops.py:151)"
RUN = f"run ({PACKAGES}/tensorflow/python/client/session.py:977)"


def test_lines_called_by_an_input_pipeline_are_distinguished():
    decode = f"decode ({ROOT}/data.py:31)"
    assert counted(
        f"{MAIN};{FETCH};{decode} 5",
        # The line of the loop that waits for a batch is not called by the loader.
        f"{MAIN};__next__ ({PACKAGES}/torch/utils/data/dataloader.py:700) 3",
        f"thread (71): Dummy-1;{PY_FUNC};{decode} 4",
        record(JOB, (8, "python"), thread=8, frames=f"{CHILD};{WORK};{FETCH};{decode}", count=2),
    ) == {
        ("driver", "data.py(31): decode", "", "DataLoader"): 5,
        ("driver", "train.py(40): <module>", "torch"): 3,
        ("thread", "data.py(31): decode", "", "py_func"): 4,
        ("worker", "data.py(31): decode", "", "DataLoader"): 2,
    }


def test_a_thread_that_runs_a_session_feeds_it():
    produce = f"_bootstrap ({PYTHON}/threading.py:1);produce ({ROOT}/data.py:9)"
    assert counted(
        f"thread (70): Thread-1 (produce);{produce} 6",
        f"thread (70): Thread-1 (produce);{produce};{RUN} 2",
        f"thread (71): Thread-2 (watch);watch ({ROOT}/data.py:20) 8",
        f"{MAIN};{RUN} 7",
    ) == {
        ("thread", "data.py(9): produce", "", "feed"): 6,
        ("thread", "data.py(9): produce", "tensorflow", "feed"): 2,
        ("thread", "data.py(20): watch", ""): 8,
        ("driver", "train.py(40): <module>", "tensorflow"): 7,
    }


APPLY = f"apply ({PACKAGES}/torch/autograd/function.py:581)"


def test_lines_of_callbacks_are_distinguished():
    jitted = f"cache_miss ({PACKAGES}/jax/_src/pjit.py:144)"
    called = f"pure_callback_impl ({PACKAGES}/jax/_src/callback.py:74)"
    checkpoint = f"CheckpointFunction.forward ({PACKAGES}/torch/utils/checkpoint.py:260)"
    assert counted(
        f"{MAIN};{jitted};{called};smooth ({ROOT}/data.py:9) 5",
        f"{MAIN};{jitted} 3",
        f"{MAIN};{APPLY};main.<locals>.Rank.forward ({ROOT}/data.py:31);f ({ROOT}/data.py:3) 4",
        # Activation checkpointing runs the model itself.
        f"{MAIN};{APPLY};{checkpoint};Model.forward ({ROOT}/model.py:7) 2",
    ) == {
        ("driver", "data.py(9): smooth", "", "jax callback"): 5,
        ("driver", "train.py(40): <module>", "jax"): 3,
        ("driver", "data.py(3): f", "", "autograd.Function Rank"): 4,
        ("driver", "model.py(7): Model.forward", ""): 2,
    }


def test_generators_that_make_batches(tmp_path):
    (tmp_path / "data.py").write_text(
        "def batches(files):\n"
        "    for file in files:\n"
        "        yield decode(file)\n"
        "\n"
        "def decode(file):\n"
        "    return sum(byte for byte in file)\n"
    )
    loop = f"thread (7): MainThread;main ({tmp_path}/train.py:40)"
    making = f"{loop};batches ({tmp_path}/data.py:3)"
    text = [
        f"{making};decode ({tmp_path}/data.py:6) 5",
        f"{making};get ({PYTHON}/queue.py:171);wait ({PYTHON}/threading.py:320) 4",
        f"{loop};decode ({tmp_path}/data.py:6);<genexpr> ({tmp_path}/data.py:6) 3",
    ]
    found = count_samples("\n".join(text), 7, UserFiles(str(tmp_path)))
    assert {(place.line, place.entry) for place in found} == {
        ("data.py(6): decode", "generator"),
        ("data.py(3): batches", ""),
        ("data.py(6): <genexpr>", ""),
    }


def test_what_a_library_that_logs_has_called_counts_for_it():
    log = f"log ({ROOT}/train.py:9)"
    writer = f"add_histogram ({PACKAGES}/torch/utils/tensorboard/writer.py:492)"
    emit = f"emit ({PYTHON}/logging/__init__.py:1100)"
    own = f"emit ({ROOT}/handlers.py:4)"
    assert counted(
        f"{MAIN};{log};{writer};histogram ({PACKAGES}/numpy/lib/histograms.py:7) 5",
        f"{MAIN};{log};{emit};flush ({PYTHON}/codecs.py:3) 4",
        f"{MAIN};{log};{emit};{own} 3",
    ) == {
        ("driver", "train.py(9): log", "tensorboard"): 5,
        ("driver", "train.py(9): log", "logging"): 4,
        # The program's own handler may do anything.
        ("driver", "handlers.py(4): emit", ""): 3,
    }


def test_start_up_is_that_of_the_main_thread():
    importing = "_find_and_load (<frozen importlib._bootstrap>:1360)"
    torch, numpy = f"<module> ({PACKAGES}/torch/x.py:1)", f"<module> ({PACKAGES}/numpy/x.py:1)"
    text = "\n".join(
        [
            f"{MAIN};load ({ROOT}/data.py:3) 9",
            f"{MAIN};{importing};{torch};{importing};{numpy} 5",
            f"{MAIN};{torch};{importing};{numpy} 4",
            f"{MAIN};{torch} 3",
            f"thread (7): MainThread;{importing};{numpy} 2",
            f"thread (8): feeder;f ({ROOT}/data.py:3) 1",
        ]
    )
    assert count_startup(text, 7, UserFiles(ROOT)) == {
        Place("startup", "data.py(3): load", "", ""): 9,
        Place("startup", "train.py(40): <module>", "torch", "import"): 9,
        Place("startup", "train.py(40): <module>", "torch", ""): 3,
        Place("startup", "", "numpy", ""): 2,
    }


def test_what_a_line_has_called_and_what_its_source_says(tmp_path):
    (tmp_path / "data.py").write_text(
        "def resample(rows):\n    return [interp(row) for row in rows]\n\n\nresample(rows)\n"
    )
    outer = f"thread (7): MainThread;<module> ({tmp_path}/data.py:5)"
    line = f"{outer};resample ({tmp_path}/data.py:2)"
    interp = f"interp ({PACKAGES}/numpy/lib/x.py:7);take ({PACKAGES}/numpy/core/x.py:9)"
    found = count_samples(f"{line};{interp} 30\n{line} 5", 7, UserFiles(str(tmp_path)))
    about = "data.py(2): resample"
    loop = "comprehension", "interp"
    assert found == {
        Place("driver", about, "numpy", "", "numpy: interp", *loop): 30,
        Place("driver", about, "", "", "", *loop): 5,
    }


@pytest.mark.parametrize(
    ("source", "inner", "leaf"),
    [
        ("batch = ready.get()", f"{GET};wait ({PYTHON}/threading.py:1)", "threading"),
        ("made = job.result()", f"result ({PYTHON}/concurrent/futures/_base.py:451)", "threading"),
        ("thread.join()", f"Thread.join ({PYTHON}/threading.py:1112)", "threading"),
        ("time.sleep(1)", "", ""),
        ("loss.block_until_ready()", "", "jax"),
        ("loss.block_until_ready()", f"wait ({OBSERVER}record/jax/waits.py:76)", "jax"),
        ("path = os.path.join(a, b)", f"join ({PYTHON}/posixpath.py:71)", "python"),
        ("total = sum(values)", "", ""),
    ],
)
def test_a_line_that_waits_runs_no_python(source, inner, leaf, tmp_path):
    """It belongs to what it waits for: another thread or process, or a framework."""
    (tmp_path / "train.py").write_text(f"{source}\n")
    line = f"thread (7): MainThread;<module> ({tmp_path}/train.py:1)"
    stack = f"{line};{inner}" if inner else line
    found = count_samples(f"{stack} 9", 7, UserFiles(str(tmp_path)))
    assert [(place.line, place.leaf) for place in found] == [("train.py(1): <module>", leaf)]
