"""Instrument PyTorch: optimizers, gradient scalers, data loaders, `torch.compile`, checkpoints."""

from __future__ import annotations

import contextlib
import functools
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING

from stepwhy.record.core import registry
from stepwhy.record.core.compiled_code import exclude_by, wrapper
from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import user_call
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.steps.meters import InputWait
from stepwhy.record.torch import compilations, loaders
from stepwhy.record.torch.compilations import Compilations
from stepwhy.record.torch.existing_optimizers import observe_existing
from stepwhy.record.torch.flight_recorder import recorded_arrivals
from stepwhy.record.torch.gradient_walk import GradientWalk
from stepwhy.record.torch.line_window import LineWindow
from stepwhy.record.torch.loaders import Loaders
from stepwhy.record.torch.steps import StepObserver
from stepwhy.record.torch.window import ProfilerWindow
from stepwhy.record.watchers.saving import observe_saving

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]
    from types import CodeType
    from typing import Any


COLLECTIVES_FILE = "collectives.json.gz"
_SCHEMA = "stepwhy.collectives/1"
_MOST_TABLES = 100  # of each kind; a call takes 0.1 ms to read


class Observer:
    """Everything that observes PyTorch in this process."""

    def __init__(self, run_dir: str) -> None:
        from torch.version import __version__

        leave_observer_alone()
        self.recorder = Recorder(run_dir, "pytorch", str(__version__), "torch-optimizer")
        self.walk = GradientWalk(self.recorder)
        self.window = ProfilerWindow(self.recorder, self.walk)
        self.lines = LineWindow(self.recorder)
        self.waits = InputWait(sees_all=True)
        self.loaders = Loaders(self.recorder)
        self.compilations = Compilations(self.recorder)
        self.arrivals = Arrivals(self.recorder)
        self.steps = StepObserver(
            self.recorder, self.window, self.waits, self.compilations, self.lines
        )
        for part in (self.window, self.lines, self.loaders, self.compilations, self.steps):
            lifetime.on_begin(part.forget)
        registry.count("optimizer_steps", lambda: self.steps.calls)


observer_of = functools.cache(Observer)


def observe_optimizers(module: ModuleType, run_dir: str) -> None:
    """Call the observer after each `step` of any optimizer of `torch.optim.optimizer`.

    PyTorch wraps the `step` of each optimizer class once by `profile_hook_step`, which records it
    under the profiler. The observer wraps that in turn: the global post-hook of optimizers runs
    inside, where a step boundary would cut the recorded range in two.
    """
    base: Any = module.Optimizer
    steps, walk = observer_of(run_dir).steps, observer_of(run_dir).walk
    wrap, stepped = base.profile_hook_step, steps.stepped

    def around(step: Call) -> Call:
        # Called when an optimizer is made: by then torch has been imported completely.
        # Its fuller sibling `is_compiling` calls another function, and this runs in every step.
        from torch.compiler import is_dynamo_compiling as is_compiling

        steps.optimizer_made()

        @wrapper
        @functools.wraps(step)
        def observed(*args: Any, **kwargs: Any) -> Any:
            # A compiled step must be the same as without the observer: none of this is traced.
            if not args or is_compiling():
                return step(*args, **kwargs)
            if steps.light:
                result = step(*args, **kwargs)
            else:
                calls, start_ns = steps.calls, perf_counter_ns()
                result = step(*args, **kwargs)
                steps.add_optimizer(perf_counter_ns() - start_ns, calls)
            if walk.is_due:
                walk.stepped(args[0])
            stepped(args[0])
            return result

        return observed

    @functools.wraps(wrap)
    def profile_hook_step(func: Call) -> Call:
        return around(wrap(func))

    base.profile_hook_step = staticmethod(profile_hook_step)
    recorder = observer_of(run_dir).recorder
    base.add_param_group = _noting(base.add_param_group, walk.know, recorder)
    observe_existing(base, around, stepped, walk.know)


def _noting(add_param_group: Call, know: Call, recorder: Recorder) -> Call:
    """`Optimizer.add_param_group`, which each optimizer calls when it is made."""

    @wrapper
    @functools.wraps(add_param_group)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        know(self)
        if not getattr(self, "param_groups", True):  # its first group: it is being made
            name = type(self).__name__
            with contextlib.suppress(Exception):
                recorder.made(name, user_call(name))
        return add_param_group(self, *args, **kwargs)

    return noted


def observe_tables(module: ModuleType, run_dir: str) -> None:
    """Note how the program makes the embedding tables of `torch.nn.modules.sparse`."""
    recorder = observer_of(run_dir).recorder
    for kind in (module.Embedding, module.EmbeddingBag):
        kind.__init__ = _noting_table(kind.__init__, recorder)


def _noting_table(make: Call, recorder: Recorder) -> Call:
    """The constructor of an embedding table; the first tables are logged with their shapes."""
    left = iter(range(_MOST_TABLES))

    @wrapper
    @wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if next(left, None) is None:
            return
        with contextlib.suppress(Exception):
            name = f"nn.Embedding[{self.num_embeddings}x{self.embedding_dim}]"
            call = user_call(type(self).__name__, "from_pretrained", "__init__")
            recorder.made(name, call)

    return init


def observe_backward(module: ModuleType, run_dir: str) -> None:
    """Call the observer after each pass by `backward` of `torch.autograd`, as of tensors."""
    import torch  # still being imported; it will have a compiler

    functions: Any = module
    original, observer = functions.backward, observer_of(run_dir)
    steps, walk = observer.steps, observer.walk

    @wrapper
    @wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if walk.is_due and not torch.compiler.is_compiling():
            walk.walk(*args, **kwargs)
        result = original(*args, **kwargs)
        if steps.by_hand and not torch.compiler.is_compiling():
            steps.passed_backward()
        return result

    functions.backward = backward


def observe_graphs(module: ModuleType, run_dir: str) -> None:
    """Follow the graphs of `torch.cuda.graphs`: what is captured, and what is replayed."""
    kind: Any = module.CUDAGraph
    begin, end, replay = kind.capture_begin, kind.capture_end, kind.replay
    steps = observer_of(run_dir).steps
    graphs = steps.graphs

    @wrapper
    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.capture_begins(self)
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            graphs.ends(self)
            raise

    @wrapper
    @functools.wraps(end)
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return end(self, *args, **kwargs)
        finally:
            graphs.ends(self)

    @wrapper
    @functools.wraps(replay)
    def observed_replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = replay(self, *args, **kwargs)
        if id(self) in graphs.clocks:
            steps.replayed(self)
        return result

    kind.capture_begin, kind.capture_end, kind.replay = capture_begin, capture_end, observed_replay


def observe_scalers(module: ModuleType, run_dir: str) -> None:
    """Count the steps that the `GradScaler` of `torch.amp.grad_scaler` skips."""
    steps = observer_of(run_dir).steps
    original = module.GradScaler._maybe_opt_step

    @wrapper
    @functools.wraps(original)
    def maybe_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = steps.calls
        result = original(self, optimizer, *args, **kwargs)
        if steps.calls == before:
            steps.stepped(optimizer)
        return result

    module.GradScaler._maybe_opt_step = maybe_step


def observe_loaders(module: ModuleType, run_dir: str) -> None:
    """Log the data loaders of `torch.utils.data.dataloader`, and the waits for their batches."""
    seen = observer_of(run_dir)
    guard = ObservationGuard(seen.recorder, "Loaders of batches")
    loaders.instrument(module, guard, seen.loaders, seen.waits)


def observe_compiler(module: ModuleType, run_dir: str) -> None:
    """Log the compilations recorded in `torch._dynamo.utils`."""
    seen = observer_of(run_dir)
    guard = ObservationGuard(seen.recorder, "torch.compile")
    compilations.instrument(module, seen.compilations, guard)


def observe_checkpoints(module: ModuleType, run_dir: str) -> None:
    """Log the checkpoints that `torch.serialization` saves, and show them in traced windows."""
    functions: Any = module
    functions.save = _recorded(functions.save, "torch.save")
    observe_saving(module, run_dir)


def _recorded(original: Call, name: str) -> Call:
    """Wrap a function so that a running profiler records its calls under this name."""

    @wrapper
    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        from torch import autograd

        if not autograd._profiler_enabled():
            return original(*args, **kwargs)
        with autograd.profiler.record_function(name):
            return original(*args, **kwargs)

    return recorded


class Arrivals:
    """Notes when this rank entered its latest collectives, once, when its observation ends.

    The traced window has a few steps only. What makes a rank late in every tenth step shows in the
    times at which it entered collectives, which PyTorch's flight recorder keeps in any case.

    Args:
        recorder: Writes the file.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        lifetime.on_end(self.keep)

    def keep(self) -> None:
        """Write the file, if the process took part in any collective; never raises."""
        if "torch.distributed" not in sys.modules:
            return
        with contextlib.suppress(Exception):
            content = recorded_arrivals()
            if content["entries"]:
                self._recorder.note(COLLECTIVES_FILE, {"schema": _SCHEMA, "recorder": content})


@functools.cache
def leave_observer_alone() -> None:
    """Let Dynamo, the compiler behind `torch.compile`, leave marked code alone.

    A wrapper that Dynamo meets while it traces is traced as the training's own code is, and must
    do nothing while `torch.compiler.is_compiling`. One that is called as a function of its own,
    after what cannot be traced, would be compiled alone. `compiled_code` has marked the code.

    Source: torch/_dynamo/eval_frame.py, `skip_code`; torch/csrc/dynamo/eval_frame_cpp.cpp.
    """
    exclude_by(_exclude)


def _exclude(code: CodeType, deep: bool) -> None:
    """Let Dynamo run a function as it is, and if `deep` all that it calls."""
    # Versions before 2.1 have no Dynamo like this.
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from torch._C._dynamo import eval_frame

        core: Any = eval_frame
        if hasattr(core, "set_code_exec_strategy"):
            skip, default = core._FrameAction.SKIP, core._FrameAction.DEFAULT
            strategy = core._FrameExecStrategy(skip, skip if deep else default)
            core.set_code_exec_strategy(code, strategy)
        else:  # versions before 2.7
            core.skip_code(code)
