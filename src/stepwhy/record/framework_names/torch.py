"""Names of PyTorch."""

from __future__ import annotations

from stepwhy.record.framework_names.name import Name

_TORCH_STEPS = "steps of PyTorch optimizers"
_READY = "how many batches the workers of a loader have ready"
_DYNAMO_MARKS = "programs with torch.compile, without compiling the observer as well"
_TORCH_WINDOW = "operations of profiled PyTorch steps"
_REQUESTS = "forks after a profiled step, without Kineto's thread"
_ONE_STEP = "padding, constants and the use of gradients in one step of PyTorch"
_READS = "results of a PyTorch step that nothing reads"
_PARTS = "results of a PyTorch step of which only a part is read"
_NO_CALLS = "programs that intercept calls of PyTorch, which must not see those of stepwhy"
_UNUSED = "gradients of PyTorch that no optimizer uses"
_LINES = "how much of a PyTorch step each line of the program takes"
_PRODUCT = "m.ones(1, requires_grad=True).mul(2).grad_fn"
TORCH = (
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
    Name(
        "torch.optim.optimizer",
        "Optimizer.step.hooked",
        _TORCH_STEPS,
        "type(__import__('torch').optim.SGD([__import__('torch').ones(1)], 0.1)).step.hooked",
    ),
    Name(
        "torch.profiler",
        "profile().step_rec_fn",
        "the end of a profiled step, without what stepwhy does until the next one",
        "hasattr(m.profile(), 'step_rec_fn')",
    ),
    Name(
        "torch.profiler",
        "profile().profiler.kineto_results",
        _LINES,
        "(lambda p: [p.start(), __import__('torch').ones(1), p.stop(), all("
        "hasattr(e, name) for e in p.profiler.kineto_results.events()"
        " for name in ('name', 'start_thread_id', 'is_async', 'start_ns', 'duration_ns'))"
        "][-1])(m.profile(activities=[m.ProfilerActivity.CPU]))",
    ),
    Name("torch.overrides", "_get_current_function_mode_stack", _ONE_STEP),
    Name("torch.utils._python_dispatch", "_get_current_dispatch_mode", _ONE_STEP),
    Name(
        "torch.utils._python_dispatch",
        "TorchDispatchMode.supports_higher_order_operators",
        _ONE_STEP,
    ),
    Name("torch._C", "_are_functorch_transforms_active", _ONE_STEP),
    Name("torch._tensor_str", "_str", _READS),
    Name("torch", "ops.aten.add.Tensor._schema", _READS),
    Name("torch._C", "_current_autograd_node", _PARTS),
    Name("torch._C._autograd", "_get_sequence_nr", _PARTS),
    Name("torch._C", "DisableTorchFunctionSubclass", _ONE_STEP),
    Name("torch._C", "DisableTorchFunction", _NO_CALLS),
    Name("torch._dynamo.eval_frame", "cached_backends", _ONE_STEP),
    Name(
        "torch",
        "Tensor.untyped_storage(), one object",
        _ONE_STEP,
        "(lambda t: t.untyped_storage() is t.untyped_storage())(m.ones(1))",
    ),
    Name("torch", "Tensor.grad_fn._sequence_nr", _UNUSED, f"{_PRODUCT}._sequence_nr() >= 0"),
    Name(
        "torch",
        "Tensor.grad_fn.next_functions[0][0].variable",
        _UNUSED,
        f"{_PRODUCT}.next_functions[0][0].variable is not None",
    ),
    Name(
        "torch",
        "Tensor._version",
        "gradients of PyTorch that are dropped before an optimizer reads them",
        "m.ones(1)._version >= 0",
    ),
    *(
        Name("torch", f"Tensor.{name}", _UNUSED, f"hasattr(m.ones(1), '{name}')")
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
    ),
)
"""Names that the observers of PyTorch use."""
