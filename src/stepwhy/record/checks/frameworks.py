"""Check which loops can be observed, and what the frameworks' own profilers can trace.

The list of modules that the observer waits for comes from the observer.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.record.checks import gpu
from stepwhy.record.checks.item import Item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepwhy.record.checks.machine import Machine

    Frameworks = Mapping[str, Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class Loop:
    """A kind of training loop.

    Args:
        name: The item's name.
        package: The framework's package.
        title: The framework's name.
        loops: The kind of loop, for display.
        modules: The observer sees such loops if it waits for one of these, or for one inside.
    """

    name: str
    package: str
    title: str
    loops: str
    modules: tuple[str, ...]


LOOPS = (
    Loop(
        "tf1-sessions",
        "tensorflow",
        "TensorFlow",
        "tf.compat.v1 sessions",
        ("tensorflow.python.client.session",),
    ),
    Loop(
        "tf2-loops",
        "tensorflow",
        "TensorFlow",
        "TensorFlow 2 loops",
        ("tensorflow.python.eager", "keras.src.optimizers", "tf_keras.src.optimizers"),
    ),
    Loop(
        "keras-fit",
        "keras",
        "Keras",
        "Keras fit loops",
        ("keras.src.callbacks", "keras.src.trainers", "tf_keras.src.callbacks"),
    ),
    Loop("pytorch-loops", "torch", "PyTorch", "loops around a PyTorch optimizer", ("torch.optim",)),
    Loop("jax-loops", "jax", "JAX", "JAX loops", ("jax",)),
)


def loop_items(frameworks: Frameworks, awaited: list[str] | None) -> Iterator[Item]:
    """Items for the loops that can be observed with the installed frameworks.

    Args:
        frameworks: Folder and version of each framework; None for one that is not installed.
        awaited: Modules that the observer waits for; None if it was not loaded.
    """
    for loop in LOOPS:
        framework = frameworks[loop.package]
        if framework is not None:
            version = framework["version"] or "of unknown version"
            yield _loop(loop, f"{loop.title} {version}", awaited)
    absent = {loop.title: None for loop in LOOPS if frameworks[loop.package] is None}
    if absent:
        yield _absent(list(absent), everything=not any(frameworks.values()))


def _loop(loop: Loop, found: str, awaited: list[str] | None) -> Item:
    """Whether one kind of loop is observed, its framework being installed."""
    if awaited is None:
        meaning = f"{loop.loops} need the observer"
        return Item(loop.name, "missing", found, meaning, need="any")
    if any(f"{name}.".startswith(f"{module}.") for name in awaited for module in loop.modules):
        return Item(loop.name, "ok", found, f"{loop.loops} are observed", need="any")
    return Item(
        loop.name,
        "missing",
        found,
        f"{loop.loops} are not observed by this version of stepwhy",
        "Look for a newer stepwhy, or explain a trace in a format that it reads",
        need="any",
    )


def _absent(titles: list[str], *, everything: bool) -> Item:
    """The frameworks that are not installed, in one item."""
    meaning = "no training can be observed" if everything else "their loops cannot run here"
    return Item(
        "frameworks",
        "missing",
        f"{', '.join(titles)} not installed",
        meaning if len(titles) > 1 or everything else "its loops cannot run here",
        "If the training needs one, activate its environment, or name its Python: "
        "stepwhy check -- PYTHON train.py",
        need="any",
    )


def profiler_items(frameworks: Frameworks, machine: Machine) -> Iterator[Item]:
    """Items for what the frameworks' profilers can trace.

    Args:
        frameworks: See `loop_items`.
        machine: Source of the GPUs; loads libraries.
    """
    torch, tensorflow = frameworks["torch"], frameworks["tensorflow"]
    if torch is not None:
        yield _torch_profiler(Path(torch["folder"]), machine)
    if tensorflow is not None:
        yield _tensorflow_profiler(Path(tensorflow["folder"]), machine)


def _torch_profiler(folder: Path, machine: Machine) -> Item:
    """Whether this build of torch includes Kineto.

    Source: torch/version.py; libkineto's headers are installed when it was built in.
    """
    build = _torch_build(folder)
    if not (folder / "include/kineto").is_dir():
        return Item(
            "torch-profiler",
            "limited",
            f"{build} build, without a sign of Kineto",
            "windows of steps may lack operators and kernels",
            "Install a build with USE_KINETO=1, as the official ones are",
        )
    traced = Traced("torch-profiler", f"Kineto, {build} build", build, folder)
    return _profiler(traced, machine)


def _torch_build(folder: Path) -> str:
    """Platform of the torch build: 'CUDA 12.8', 'ROCm 6.2' or 'CPU'."""
    text = _text(folder / "version.py")
    for name, title in (("cuda", "CUDA"), ("hip", "ROCm")):
        found = re.search(rf"^{name}\b.*= '([\d.]+)", text, re.MULTILINE)
        if found:
            return f"{title} {found[1]}"
    return "CPU"


def _tensorflow_profiler(folder: Path, machine: Machine) -> Item:
    """The run-time tracer, which every build of TensorFlow includes.

    Source: tensorflow/python/platform/build_info.py, generated at build time.
    """
    text = _text(folder / "python/platform/build_info.py")
    version = re.search(r"'cuda_version', '([\d.]+)'", text)
    if "('is_cuda_build', True)" in text:
        build = f"CUDA {version[1]}" if version else "CUDA"
    else:
        build = "ROCm" if "('is_rocm_build', True)" in text else "CPU"
    traced = Traced("tf-profiler", f"run-time tracer, {build} build", build, folder)
    return _profiler(traced, machine)


@dataclass(frozen=True, slots=True)
class Traced:
    """A framework's profiler.

    Args:
        name: The item's name.
        found: Description for display.
        build: What the framework was built for: 'CUDA 12.8', 'ROCm 6.2', 'CPU'.
        folder: Folder of the framework.
    """

    name: str
    found: str
    build: str
    folder: Path


def _profiler(traced: Traced, machine: Machine) -> Item:
    """Item for what a profiler can trace on this machine."""
    if not gpu.gpus(machine):
        return Item(traced.name, "ok", traced.found, "operators are traced on the CPU")
    if traced.build == "CPU":
        return Item(
            traced.name,
            "limited",
            f"{traced.found}, but there is a GPU",
            "the training runs on the CPU",
            "Install the framework's build for this GPU",
        )
    if traced.build.startswith("CUDA") and not _has_cupti(traced.folder, machine):
        return Item(
            traced.name,
            "limited",
            f"{traced.found}, but no CUPTI beside it",
            "operators are traced, kernels perhaps not",
            "Install CUPTI: pip install nvidia-cuda-cupti-cu12, or the CUDA toolkit",
        )
    return Item(traced.name, "ok", traced.found, "operators and kernels are traced")


def _has_cupti(framework: Path, machine: Machine) -> bool:
    """Whether NVIDIA's tracing library is where the framework's package expects it."""
    packages = framework.parent
    places = (packages.glob("nvidia/*/lib"), [framework / "lib", packages.parent.parent])
    if any(any(place.glob("libcupti*.so*")) for place in itertools.chain(*places)):
        return True
    try:
        machine.load_library("libcupti.so")
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
