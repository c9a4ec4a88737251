"""The names of frameworks that observers rely on and that no framework promises to keep.

`tests.versions` looks each up in several versions of its framework. At run time a missing
name ends what it is needed for, and nothing else: see `process.losses`.
"""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """A name.

    Args:
        module: The module of the framework that has it.
        name: The name there.
        lost: What cannot be observed without it.
        expression: How to look it up, as Python in which `m` is the module; true if it is there.
            '' for an attribute of the module by its name.
    """

    module: str
    name: str
    lost: str
    expression: str = ""


_TORCH_STEPS = "steps of PyTorch optimizers"
_READY = "how many batches the workers of a loader have ready"
_DYNAMO_MARKS = "programs with torch.compile, without compiling the observer as well"
_TORCH_WINDOW = "operations of profiled PyTorch steps"
_REQUESTS = "forks after a profiled step, without Kineto's thread"
_TORCH = (
    Name("torch.optim.optimizer", "Optimizer.profile_hook_step", _TORCH_STEPS),
    Name("torch.autograd", "backward", "backward passes of PyTorch loops without an optimizer"),
    Name("torch.amp.grad_scaler", "GradScaler._maybe_opt_step", "steps that a GradScaler skips"),
    Name(
        "torch.utils.data.dataloader",
        "DataLoader._get_iterator",
        "epochs and workers of PyTorch's data loaders",
    ),
    Name(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter.__next__",
        "waits for batches of PyTorch's data loaders",
    ),
    Name(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter._next_index",
        "the order of PyTorch's data loaders",
    ),
    *(
        Name(
            "torch.utils.data.dataloader",
            f"_BaseDataLoaderIter().{name}",
            "epochs of PyTorch's data loaders",
            f"hasattr(iter(m.DataLoader([0, 1])), '{name}')",
        )
        for name in ("_num_yielded", "_num_workers")
    ),
    *(
        Name(
            "torch.utils.data.dataloader",
            f"_MultiProcessingDataLoaderIter().{name}",
            _READY,
            f"hasattr(iter(m.DataLoader([0, 1], num_workers=1)), '{name}')",
        )
        for name in ("_prefetch_factor", "_task_info", "_data_queue")
    ),
    Name("torch._dynamo.utils", "record_compilation_metrics", "compilations by torch.compile"),
    Name(
        "torch._dynamo.utils",
        "_METRICS_CONTEXT._on_exit or get_metrics_context",
        "compilations by torch.compile",
        "(m._METRICS_CONTEXT._on_exit if hasattr(m, '_METRICS_CONTEXT')"
        " else m.get_metrics_context) is not None",
    ),
    Name(
        "torch._C._dynamo.eval_frame",
        "set_code_exec_strategy, _FrameAction, _FrameExecStrategy or skip_code",
        _DYNAMO_MARKS,
        "hasattr(m, 'skip_code') or (m.set_code_exec_strategy and m._FrameAction.SKIP is not None"
        " and m._FrameExecStrategy)",
    ),
    Name("torch.serialization", "save", "checkpoints by torch.save"),
    Name("torch.autograd", "_profiler_enabled", _TORCH_WINDOW),
    Name("torch.autograd.profiler", "profile._prepare_trace", "profilers of the program itself"),
    Name(
        "torch._C._profiler",
        "_ExperimentalConfig(enable_cuda_sync_events)",
        "which stream of a GPU waits for which",
        "m._ExperimentalConfig(enable_cuda_sync_events=True) is not None",
    ),
    Name("torch._C", "_current_graph_task_id", "optimizers that step within a backward pass"),
    Name("torch._C._autograd", "_disable_profiler", "forks during a profiled step"),
    *(
        Name(
            "torch._C",
            f"libkineto::ConfigLoader::{name}",
            _REQUESTS,
            f"bool(__import__('ctypes').CDLL(m.__file__)['{symbol}'])",
        )
        for name, symbol in (
            ("instance", "_ZN9libkineto12ConfigLoader8instanceEv"),
            ("stopThread", "_ZN9libkineto12ConfigLoader10stopThreadEv"),
        )
    ),
    Name(
        "torch._C._distributed_c10d",
        "_dump_fr_trace",
        "the collectives that a rank has entered before a hang",
    ),
    Name("torch.cuda", "_sleep", "kernels after a window that was abandoned"),
    Name("torch.cuda", "is_current_stream_capturing", "windows beside CUDA graphs"),
)

_JAX_CALLS = "calls of jitted JAX functions"
_JAX_WHY = "first calls of jitted JAX functions, and why they are compiled"
_JAX_WINDOW = "operations of profiled JAX steps"
_JAX = (
    *(
        Name("jax._src.api", f"_post_hook_state.{name}", _JAX_CALLS)
        for name in ("get_global", "set_global", "set_local")
    ),
    Name("jax._src.api", "value_and_grad", "gradients of JAX"),
    Name(
        "jax._src.pjit",
        "_run_python_pjit or _python_pjit_helper",
        _JAX_WHY,
        "hasattr(m, '_run_python_pjit') or hasattr(m, '_python_pjit_helper')",
    ),
    *(
        Name("jax._src.pjit", f"PjitParams.{name}", _JAX_WHY)
        for name in ("params", "in_avals", "arg_names")
    ),
    Name(
        "jax._src.pjit",
        "cache_miss",
        "which compilations belong to a call",
        "'def cache_miss(' in __import__('inspect').getsource(m)",
    ),
    Name("jax._src.core", "trace_state_clean", _JAX_CALLS),
    Name("jax._src.stages", "Compiled.__call__", "JAX functions compiled ahead of time"),
    Name(
        "jax._src.monitoring",
        "register_event_duration_secs_listener",
        "compilations by JAX",
    ),
    Name(
        "jax._src.dispatch",
        "backend_compile_duration",
        "compilations by JAX",
        "m.BACKEND_COMPILE_EVENT.endswith('/backend_compile_duration')",
    ),
    Name(
        "jax._src.interpreters.pxla",
        "batched_device_put",
        "arrays that JAX copies to the device",
    ),
    Name("jax._src.array", "ArrayImpl._value.fget", "waits for values of JAX arrays"),
    Name("jax._src.array", "ArrayImpl.is_ready", "whether the device is behind the host"),
    Name("jax._src.array", "ArrayImpl._committed", "why a function is compiled again"),
    Name(
        "jax._src.array",
        "xc.batched_block_until_ready",
        "calls of jax.block_until_ready",
    ),
    Name(
        "jax._src.profiler",
        "_profile_state.profile_session",
        _JAX_WINDOW,
        "m._profile_state is not None and hasattr(m._profile_state, 'profile_session')",
    ),
    Name("jax._src.profiler", "ProfileOptions.python_tracer_level", _JAX_WINDOW),
    Name("jax._src.profiler", "_profiler.ProfilerSession.stop", _JAX_WINDOW),
    Name("jax._src.profiler", "_profiler.TraceMe", "marks of profiled JAX steps"),
    Name("jax._src.profiler", "StepTraceAnnotation.__enter__", "steps that a JAX program marks"),
)

_TF1 = "sessions of TensorFlow"
_TF1_QUEUES = "how full the queues of a session are"
_TF2_WINDOW = "operations of profiled TensorFlow steps"
_TF_DATA = "waits for elements of tf.data"
_TF_STAGES = "the stages of a tf.data pipeline as they are written"
_SESSION = "m.Session(graph=__import__('tensorflow').Graph())"
_DATASET = "__import__('tensorflow').data.Dataset.range(2)"
_TENSORFLOW = (
    Name("tensorflow.python.client.session", "BaseSession.run", _TF1),
    Name("tensorflow.python.client.session", "BaseSession.make_callable", _TF1),
    Name(
        "tensorflow.python.client.session",
        "Session()._target",
        "that a session runs on another server",
        f"hasattr({_SESSION}, '_target')",
    ),
    *(
        Name(
            "tensorflow.python.client.session",
            f"Session().{name}",
            lost,
            f"hasattr({_SESSION}, '{name}')",
        )
        for name, lost in (
            ("_session", _TF1_QUEUES),
            ("_closed", _TF1_QUEUES),
            ("_config", "how many threads a session may use"),
        )
    ),
    Name(
        "tensorflow.python.framework.ops",
        "Graph().version",
        "growth of the graph of a session",
        "m.Graph().version >= 0",
    ),
    Name(
        "tensorflow.python.framework.ops",
        "Operation._device_assignments",
        "device scopes of the operations of a graph",
    ),
    *(
        Name("tensorflow.python.client.pywrap_tf_session", name, _TF1_QUEUES)
        for name in (
            "TF_NewBufferFromString",
            "TF_DeleteBuffer",
            "TF_SessionMakeCallable",
            "TF_SessionRunCallable",
        )
    ),
    Name(
        "tensorflow.python.eager.polymorphic_function.polymorphic_function",
        "Function._python_function",
        "calls of TensorFlow functions",
        "callable(m.function(lambda: 1)._python_function) and callable(m.Function.__call__)",
    ),
    Name(
        "tensorflow.python.eager.polymorphic_function.tracing_compilation",
        "_create_concrete_function",
        "traces of TensorFlow functions, and why they are traced again",
    ),
    *(
        Name("tensorflow.python.data.ops.iterator_ops", f"OwnedIterator.{name}", _TF_DATA)
        for name in ("_create_iterator", "_next_internal")
    ),
    Name(
        "tensorflow.python.data.ops.iterator_ops",
        "OwnedIterator()._dataset",
        "which data set an iterator reads",
        f"iter({_DATASET})._dataset is not None",
    ),
    Name(
        "tensorflow.python.data.experimental.ops.iterator_model_ops",
        "get_model_proto",
        "how full the buffers of tf.data are",
    ),
    Name(
        "tensorflow.python.data.ops.dataset_ops",
        "DatasetV2._inputs",
        _TF_STAGES,
        f"callable({_DATASET}.repeat()._inputs)",
    ),
    Name(
        "tensorflow.python.data.ops.dataset_ops",
        "DatasetV2._functions",
        _TF_STAGES,
        f"callable({_DATASET}.repeat()._functions)",
    ),
    Name(
        "tensorflow.python.profiler.profiler_v2",
        "_profiler",
        _TF2_WINDOW,
        "hasattr(m, '_profiler')",
    ),
    Name(
        "tensorflow.python.profiler.internal._pywrap_profiler",
        "ProfilerSession.export_to_tb",
        _TF2_WINDOW,
    ),
    Name("tensorflow.python.profiler.internal._pywrap_traceme", "TraceMe", _TF2_WINDOW),
    Name("tensorflow.python.eager.context", "executing_eagerly", "calls of TensorFlow functions"),
)

_FIT = "steps of Keras' fit"
_EVALUATIONS = "evaluations during a Keras training"
_EVENTS = (
    "on_epoch_begin",
    "on_epoch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_train_end",
)
_KERAS = (
    *(Name("keras.src.callbacks.callback_list", f"CallbackList.{e}", _FIT) for e in _EVENTS),
    Name("keras.src.backend.config", "backend", _FIT),
    Name("keras.src.optimizers.base_optimizer", "BaseOptimizer.apply", "updates by Keras"),
    Name("keras.src.optimizers.base_optimizer", "BaseOptimizer.build", "types of parameters"),
    Name("keras.src.trainers.epoch_iterator", "EpochIterator", "examples in a batch of fit"),
    Name("keras.src.models.model", "Model.evaluate", _EVALUATIONS),
    *(Name("tf_keras.src.callbacks", f"CallbackList.{e}", _FIT) for e in _EVENTS),
    Name("tf_keras.src.optimizers.optimizer", "Optimizer.apply_gradients", "updates by Keras"),
    Name("tf_keras.src.optimizers.optimizer", "Optimizer.build", "types of parameters"),
    Name("tf_keras.src.engine.training", "Model.evaluate", _EVALUATIONS),
)

NAMES: dict[str, tuple[Name, ...]] = {
    "torch": _TORCH,
    "jax": _JAX,
    "tensorflow": _TENSORFLOW,
    "keras": _KERAS,
}
"""The names by framework."""


def lost_with(module: str) -> str:
    """What cannot be observed if a module of a framework cannot be instrumented.

    Args:
        module: Its full name.
    """
    names = (name for group in NAMES.values() for name in group if name.module == module)
    lost = list(dict.fromkeys(name.lost for name in names))
    return "; ".join(lost) or f"what {module} does"
