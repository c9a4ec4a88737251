"""The programs of the matrix: how each is started, and how many steps it trains.

A step is what the documentation says it is (how-to/watch-a-run.md), which fixes the counts:

- PyTorch: from one step of the optimizer to the next. n of them bound n - 1 steps.
- Sessions, TensorFlow 2 loops, JAX: from one call to the next. n of them bound n - 1 steps.
- Keras' `fit`: one batch. n batches are n steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Program:
    """One way to train.

    Args:
        words: What follows `python`: a script of `programs/` and its arguments, or -m and a module.
        framework: As the result names it.
        needs: The packages that must be installed.
        log: Lines of each kind in the step log of every process.
        steps: Steps that these lines show, profiled ones included.
        exit_code: The training's own.
        processes: Processes that train.
        windows: Whether a window of traced steps is promised.
        says: How the one message to the person begins; '' where there is none.
        environment: Variables to set.
        attempts: How often it may be started until it ends as it should, with or without stepwhy.
        spare: Lines beyond `log` that chance decides, at most.
        forked: Whether it is observed in a fork that has imported the framework, as another program
            differs from it in its loop alone and is started by `stepwhy run`.
    """

    words: str
    framework: str
    needs: tuple[str, ...]
    log: dict[str, int]
    steps: int
    exit_code: int = 0
    processes: int = 1
    windows: bool = True
    says: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    attempts: int = 1
    spare: int = 0
    forked: bool = False

    @property
    def name(self) -> str:
        """Short and unique, for the name of its tests."""
        script, *arguments = self.words.removeprefix("-m ").split()
        script = script.removesuffix(".py")
        chosen = [a for a in arguments if a.isalpha()] + list(self.environment.values())
        return "-".join([script if script != _TORCHRUN else "torch_ddp", *chosen])


_TORCHRUN = "torch.distributed.run"


def _session(words: str, runs: int, steps: int = 39, *, forked: bool = True) -> Program:
    return Program(words, "tensorflow", ("tensorflow",), {"run": runs}, steps, forked=forked)


def _keras(words: str, *, package: str = "keras", calls: int = 0, backend: str = "") -> Program:
    """40 batches in a `fit`, and calls of compiled functions after it."""
    log = {"step": 40, "call": calls} if calls else {"step": 40}
    if not backend:
        return Program(words, "tensorflow", ("tensorflow", package), log, 40)
    return Program(
        words,
        {"torch": "pytorch"}.get(backend, backend),
        (package, backend),
        log,
        40,
        windows=backend != "torch",
        environment={"KERAS_BACKEND": backend},
    )


def _calls(words: str, framework: str, *needs: str) -> Program:
    """40 calls of what is called once per step."""
    return Program(words, framework, needs or (framework,), {"call": 40}, 39)


def _torch(words: str, steps: int = 39, *, exit_code: int = 0, processes: int = 1) -> Program:
    log = {"step": steps}
    return Program(words, "pytorch", ("torch",), log, steps, exit_code, processes)


PROGRAMS = (
    # Beside 40 runs of the training: one that initialises.
    _session("tf1_feed.py", 41, forked=False),
    _session("tf1_callable.py", 41),
    _session("tf1_callable_feeds.py", 41),
    _session("tf1_queues.py", 41),
    # Two runs that initialise and report; the hooks read the step and save in runs of their own.
    # TensorFlow may read the step of a run before or after its update. The hooks that save and stop
    # see an update that they do not expect, and ask again in the next step: once for each of two
    # saves and the stop.
    replace(_session("tf1_monitored.py", 95), spare=3),
    # Three runs per step, four that save, three at the ends.
    _session("tf1_summaries.py", 127),
    # The run that meets the end of the data ends the fortieth step.
    _session("tf1_dataset.py", 42, steps=40),
    _keras("keras_fit.py"),
    replace(_keras("keras_callbacks.py", calls=13), forked=True),
    _keras("keras_callbacks.py", backend="torch"),
    _keras("keras_callbacks.py", backend="jax", calls=13),
    _keras("keras_legacy.py", package="tf_keras"),
    replace(_calls("keras_train_on_batch.py", "tensorflow", "tensorflow", "keras"), forked=True),
    _calls("tf2_function.py", "tensorflow"),
    replace(_calls("tf2_eager.py", "tensorflow", "tensorflow", "keras"), forked=True),
    _torch("torch_plain.py"),
    replace(_torch("torch_loader.py"), forked=True),
    _torch("torch_workers.py fork"),
    _torch("torch_workers.py spawn"),
    _torch("torch_workers.py forkserver"),
    replace(_torch("torch_iterable.py"), forked=True),
    _torch("torch_compile.py"),
    replace(_torch("torch_accumulate.py", exit_code=3), forked=True),
    replace(_torch("torch_gan.py"), forked=True),
    replace(_torch("torch_lbfgs.py", steps=29), forked=True),
    replace(_torch("torch_amp.py"), forked=True),
    replace(
        _torch("torch_thread.py"),
        windows=False,
        says="the steps were timed, but not profiled: the training runs in a thread that did not",
    ),
    _torch("torch_error.py", exit_code=1),
    # 39 steps of the teacher, 39 of the student; between them lies no step.
    replace(_torch("torch_phases.py", steps=78), forked=True),
    _torch("-m trainer --steps 40"),
    # gloo aborts now and then as its processes end, also where nobody watches.
    replace(
        _torch(f"-m {_TORCHRUN} --standalone --nproc-per-node 2 torch_ddp.py", processes=2),
        attempts=4,
    ),
    _calls("jax_jit.py", "jax"),
    _calls("jax_annotated.py", "jax"),
    _calls("jax_scan.py", "jax"),
    _calls("jax_eager.py", "jax"),
)
