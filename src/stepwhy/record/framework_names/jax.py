"""Names of JAX."""

from __future__ import annotations

from stepwhy.record.framework_names.name import Name

_JAX_CALLS = "calls of jitted JAX functions"
_JAX_WHY = "first calls of jitted JAX functions, and why they are compiled"
_JAX_WINDOW = "operations of profiled JAX steps"
JAX = (
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
    Name(
        "jax._src.dispatch",
        "_DeferredShardArg.result_handler",
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
"""Names that the observers of JAX use."""
