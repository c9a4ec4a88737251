"""The fixes that `stepwhy try` can apply at run time, and which diagnosis each is for."""

from __future__ import annotations

from re import fullmatch
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.result import Finding
    from stepwhy.result.edits import Edit

Framework = Literal["pytorch", "tensorflow", "jax", ""]


class FixAbout(msgspec.Struct, frozen=True):
    """A fix.

    Args:
        name: Its name on the command line.
        title: What it changes, in a few words.
        missing: What was not found in the program if it changes nothing.
        framework: The framework that it is for; '' for any.
        diagnoses: Ids of the diagnoses that it fixes; () if it is only tried by name.
        edits: WHAT=CHANGE of the edits that it makes real, each with its argument for that, in
            which '{count}' stands for the count of the edit.
        value: What its argument is; '' if it has none.
        accepts: Pattern of its argument.
        needs_value: Whether it does nothing without an argument.
        counts_steps: Whether it counts the steps of the process while that runs.
        switchable: Whether it can be switched within a run.
        statistic: 'mean' if it makes rare long steps rarer, which a median does not show. It is
            not switched then: a block of steps contains such a step or misses it by chance.
        reorders: Whether it changes the order in which random numbers are drawn, so that losses
            differ by chance.
        is_measurement: Whether it is no fix, but shows what a part of the step costs.
        ranks: Whether it can be tried in a program of several ranks.
        variables: Environment variables of the program.
        caveat: What the user has to know of every result.
    """

    name: str
    title: str
    missing: str
    framework: Framework = ""
    diagnoses: tuple[str, ...] = ()
    edits: dict[str, str] = {}
    value: str = ""
    accepts: str = r"[1-9][0-9]{0,5}"
    needs_value: bool = False
    counts_steps: bool = False
    switchable: bool = False
    statistic: Literal["median", "mean"] = "median"
    reorders: bool = False
    is_measurement: bool = False
    ranks: bool = False
    variables: dict[str, str] = {}
    caveat: str = ""

    def argument_for(self, edit: Edit | None) -> str | None:
        """The argument with which it makes an edit real; None if it does not."""
        made = self.edits.get(f"{edit.what}={edit.change}") if edit is not None else None
        return made.format(count=edit.count) if edit is not None and made is not None else None

    def takes(self, value: str) -> bool:
        """Whether it understands an argument."""
        return fullmatch(self.accepts, value) is not None


_LOADER = "no DataLoader was made to which this applies"
_STAYING = (
    "Workers that stay over epochs do not see what the program changes in its data set between "
    "epochs, such as dataset.epoch = n."
)
_KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "2147483647"}

FIXES: tuple[FixAbout, ...] = (
    FixAbout(
        "loader-workers", "give each DataLoader workers", _LOADER, "pytorch",
        ("serial-input", "python-preprocessing", "input-bound", "storage-wait"),
        edits={"input=workers": "{count}", "input=prefetch": "1"},
        value="number of workers", reorders=True, caveat=_STAYING,
    ),
    FixAbout(
        "loader-prefetch", "let workers prepare more batches ahead", _LOADER, "pytorch",
        value="batches per worker",
    ),
    FixAbout(
        "persistent-workers", "keep the workers over epochs", _LOADER, "pytorch",
        ("worker-respawn",), edits={"input=gone": ""}, statistic="mean", reorders=True,
        caveat=_STAYING,
    ),
    FixAbout("pin-memory", "return batches in pinned memory", _LOADER, "pytorch",
             ("pageable-copy",), edits={"copies=pinned": ""}),
    FixAbout(
        "constant-batch", "repeat the first batch",
        "no DataLoader or tf.data pipeline of known length was iterated",
        edits={"input=free": ""}, reorders=True, is_measurement=True,
    ),
    FixAbout(
        "fused-optimizer", "update all parameters in one operation",
        "no optimizer was made that can be fused", "pytorch", ("unfused-optimizer",),
        edits={"ops=fused": ""}, switchable=True,
    ),
    FixAbout(
        "foreach-optimizer", "update all parameters in a few operations",
        "no optimizer was made that has a foreach implementation", "pytorch", switchable=True,
    ),
    FixAbout(
        "torch-threads", "use as many threads as there are cores",
        "PyTorch uses as many threads already", "pytorch", ("cpu-oversubscription",),
        edits={"threads=count": "{count}"}, value="number of threads", switchable=True,
    ),
    FixAbout(
        "anomaly-detection-off", "turn anomaly detection off",
        "anomaly detection was never turned on", "pytorch", ("debug-settings",), switchable=True,
    ),
    FixAbout(
        "own-profiler-off", "do not start the program's own profiler",
        "the program started no profiler of its own", "pytorch", ("profiler-perturbation",),
        edits={"profiler=gone": ""}, statistic="mean",
    ),
    FixAbout(
        "empty-cache-rarely", "call torch.cuda.empty_cache rarely",
        "torch.cuda.empty_cache was never called in a step", "pytorch", ("allocator-pressure",),
        value="steps between two calls", counts_steps=True, statistic="mean",
    ),
    FixAbout(
        "summaries-rarely", "write summaries rarely",
        "no SummaryWriter of PyTorch wrote in a step", "pytorch", ("logging-stall",),
        value="steps between two", counts_steps=True, statistic="mean",
    ),
    FixAbout(
        "no-sync", "exchange gradients once per optimizer step",
        "no DistributedDataParallel model ran several times per optimizer step", "pytorch",
        ("redundant-gradient-sync",), edits={"communication=gone": ""}, ranks=True,
    ),
    FixAbout("channels-last", "keep images channels last", "no two-dimensional convolution ran",
             "pytorch", ("unfavourable-layout",), edits={"ops=replaced": ""}),
    FixAbout("autocast", "run the models in a lower precision", "no model with parameters ran",
             "pytorch", value="data type, bfloat16 or float16", accepts="bfloat16|float16",
             switchable=True),
    FixAbout("torch-compile", "compile the models", "no model ran", "pytorch", value="backend",
             accepts=r"\S+"),
    FixAbout("compile-dynamic", "compile for inputs of any size", "torch.compile was never called",
             "pytorch", ("recompilation",), edits={"compile=gone": ""}, statistic="mean"),
    FixAbout(
        "parallel-map", "map elements in parallel", "no Dataset.map ran that is serial",
        "tensorflow", ("serial-input", "python-preprocessing"), edits={"input=workers": ""},
        reorders=True,
    ),
    FixAbout(
        "data-prefetch", "prepare batches ahead", "no pipeline was iterated that has no prefetch",
        "tensorflow", ("serial-input", "input-bound"), edits={"input=prefetch": ""},
        value="batches", reorders=True,
    ),
    FixAbout(
        "data-cache", "keep what is the same in each epoch",
        "no Dataset.map was made whose results are the same each time", "tensorflow",
        ("repeated-preprocessing",), edits={"input=gone": ""}, reorders=True,
    ),
    FixAbout("keras-compiled", "compile the steps of Keras", "no step ran eagerly", "tensorflow",
             ("eager-loop",)),
    FixAbout("keras-jit", "compile the steps of Keras by XLA", "no Keras model was compiled",
             "tensorflow"),
    FixAbout(
        "reduce-retracing", "let tf.function generalise shapes", "no tf.function was made",
        "tensorflow", ("recompilation",), edits={"compile=gone": ""}, statistic="mean",
    ),
    FixAbout(
        "tf-function", "make a function a tf.function",
        "this function cannot be compiled so", "tensorflow",
        value="name of the function, such as Trainer.train_step", accepts=r"\S+",
        needs_value=True,
        caveat="A tf.function keeps Python values, such as attributes and global variables, as "
        "they are when it is traced.",
    ),
    FixAbout(
        "jax-jit", "compile a function by jax.jit", "this function cannot be compiled so", "jax",
        value="name of a function that is not in a class, such as train_step", accepts=r"\S+",
        needs_value=True,
        caveat="jax.jit keeps global variables as they are when the function is traced, and "
        "changes no list or dictionary that the function is called with.",
    ),
    FixAbout("jax-debug-off", "turn JAX's debugging settings off", "no such setting was on", "jax",
             ("debug-settings",)),
    FixAbout("gc-rarely", "collect garbage rarely", "the garbage collector was off, or no step was "
             "seen", diagnoses=("gc-pause",), edits={"python=gone": ""}, counts_steps=True,
             statistic="mean"),
    FixAbout(
        "keep-freed-memory", "let the C library keep freed memory",
        "this needs glibc, on Linux", diagnoses=("page-faults",), edits={"memory=gone": ""},
        variables=_KEEP,
    ),
    FixAbout(
        "thread-variables", "limit the threads of each library",
        "the variables were not set", value="number of threads", needs_value=True,
        variables=dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"), "{value}"
        ),
    ),
)  # fmt: skip
"""All fixes. For a diagnosis, the first one of the program's framework is tried."""

_BY_NAME = {fix.name: fix for fix in FIXES}


def fix_named(name: str) -> FixAbout | None:
    """The fix of that name; None if there is none."""
    return _BY_NAME.get(name)


def fix_for(diagnosis: str, framework: str, edit: Edit | None = None) -> FixAbout | None:
    """The fix of a diagnosis in a framework; None if none can be tried.

    Args:
        diagnosis: Its id.
        framework: Framework of the run.
        edit: What the finding says to change, which chooses among several fixes.
    """
    fits = [f for f in FIXES if diagnosis in f.diagnoses and f.framework in {"", framework}]
    if edit is not None and edit.what == "ops":  # what the step computes, not what comes before it
        fits = [f for f in fits if not any(each.startswith("input=") for each in f.edits)]
    made = (f for f in fits if f.argument_for(edit) is not None)
    return next(made, fits[0] if fits else None)


def first_fix(
    findings: Iterable[Finding], framework: str, diagnosis: str = ""
) -> tuple[FixAbout, Finding] | None:
    """The first finding with a fix that can be tried.

    Args:
        findings: Findings of a run, largest cost first.
        framework: Framework of the run.
        diagnosis: Id of the only finding to consider; '' for all.
    """
    for finding in findings:
        if finding.verdict == "found" and diagnosis in {"", finding.id}:
            fix = fix_for(finding.id, framework, finding.edit)
            if fix is not None:
                return fix, finding
    return None


def fix_for_edit(edit: Edit, framework: str) -> tuple[FixAbout, str] | None:
    """The fix, and its argument, that makes the change of an edit; None if none does."""
    names = {
        ("input", "free", "pytorch"): "constant-batch",
        ("input", "free", "tensorflow"): "constant-batch",
        ("input", "workers", "pytorch"): "loader-workers",
        ("input", "workers", "tensorflow"): "parallel-map",
        ("input", "prefetch", "pytorch"): "loader-workers",
        ("input", "prefetch", "tensorflow"): "data-prefetch",
    }
    name = names.get((edit.what, edit.change, framework))
    if name is None or edit.pattern:
        return None
    argument = _BY_NAME[name].argument_for(edit)
    return (_BY_NAME[name], argument) if argument is not None else None
