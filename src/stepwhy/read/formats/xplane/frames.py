"""Classify frames of the Python tracer as user code or framework code.

The tracer writes '$file.py:123 function' for Python functions and '$module function' for built-in
ones. It records the file's name but not its folder, so the framework is recognised by the names of
its files. Library code that both sides call (functools, built-ins) counts as its caller's.

Source: xla/python/profiler/internal/python_hooks.cc.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.trace import Kind

_FRAME = regex(r"^\$(?P<file>[^: ]+\.py|<[^>]+>):(?P<line>\d+) (?P<function>.+)$")

_JAX_FILES = (
    "abstract_arrays|ad|api|api_util|array|array_creation|array_methods|async_collective|basearray|batching"
    "|cached_module|checkpoint_manager|compilation_cache|compiler|compute_on|config|convolution"
    "|core|custom_batching|custom_derivatives|deprecations|device_put|dispatch|dtypes"
    "|ffi|flatten_util|indexing|jaxpr_util|lax|lax_numpy|layout|linear_util|literals|mesh|mlir"
    "|named_sharding|op_shardings|partial_eval|partition_spec|pjit|profiler|pxla|reductions"
    "|sharding|sharding_impls|sharding_specs|sharding_utils|source_info_util|stages"
    "|state_types|traceback_util|tree_util|typing|ufunc_api|ufuncs|util|xla|xla_bridge|xla_client"
)
_TENSORFLOW_FILES = (
    "_api|ag_ctx|atomic_function|autograph_util|backprop|base_optimizer|composite_tensor|constant_op"
    "|concrete_function|context|control_flow_ops|data_adapter|dataset_ops|def_function|dense"
    "|device_assignment|distribute_lib|dtypes|ops|execute|file_io|func_graph|function"
    "|function_context|function_spec|function_type|function_type_utils|gen_\\w+_ops|iterator_ops"
    "|keras_tensor|layer|learning_phase|math_ops|mirrored_\\w+|monitoring|nest|numpy_ops"
    "|operation|optimizer_v2|polymorphic_function|profiler_v2|resource_variable_ops"
    "|summary_ops_v2|tensor|tensor_conversion\\w*|tensor_util|tensorboard|tf_data_adapter|trace"
    "|trace_type\\w*|tracing_compilation|traceback_utils|trainer|training|values|variables"
    "|epoch_iterator|compile_utils|callback_list|global_state|flags_wrapper|type_dispatch"
    "|dispatch|attribute_utils|function_cache|transform|tf_decorator|tf_stack"
)
_FRAMEWORK_FILE = regex(rf"(?:{_JAX_FILES}|{_TENSORFLOW_FILES})\.py")
# Called both by the framework and by users.
_LIBRARY_FILE = regex(
    r"<[^>]+>|(?:abc|codecs|collections|contextlib|copy|dataclasses|enum|functools|inspect"
    r"|importlib|itertools|logging|ntpath|operator|os|posixpath|random|re|selectors|ssl"
    r"|threading|types|typing|warnings|weakref|wrapt|wrappers|__init__|_bootstrap)\.py"
)
_COMPILING = regex(
    r"trace_to_jaxpr\w*|_?pjit_lower\w*|lower_\w+|backend_compile\w*|compile_or_get_cached"
    r"|_cached_compilation|_cached_lowering_to_hlo|_trace_for_jit|_create_pjit_jaxpr"
    r"|_create_concrete_function|trace_function|_maybe_define_function|_resolve_and_lower|from_hlo"
)
_WAITING = regex(r"block_until_ready|_value|synchronize|sync_devices|effects_barrier")
_STORING = regex(
    r"save_checkpoint|_?save_weights\w*|write_?summar\w+|save_model|async_save|save_args"
)


class Frame(NamedTuple):
    """Classification of a frame.

    Args:
        kind: PYTHON, FRAMEWORK, COMPILE, SYNC or STORAGE.
        source: 'file(line): function', '' for built-in functions.
        of_caller: Whether it is library code, which counts as its caller's.
    """

    kind: Kind
    source: str
    of_caller: bool


@lru_cache(maxsize=1 << 16)
def read_frame(name: str) -> Frame:
    """Classify an event whose name begins with '$'."""
    match = _FRAME.match(name)
    if match is None:
        kind = Kind.SYNC if _WAITING.fullmatch(name.rpartition(" ")[2]) else Kind.PYTHON
        return Frame(kind, "", kind is Kind.PYTHON)
    file, function = match["file"], match["function"]
    source = f"{file}({match['line']}): {function}"
    if _FRAMEWORK_FILE.fullmatch(file):
        return Frame(_framework_kind(function), source, False)
    if _LIBRARY_FILE.fullmatch(file):
        return Frame(Kind.PYTHON, source, True)
    return Frame(Kind.PYTHON, source, False)


def _framework_kind(function: str) -> Kind:
    if _COMPILING.fullmatch(function):
        return Kind.COMPILE
    if _WAITING.fullmatch(function):
        return Kind.SYNC
    return Kind.STORAGE if _STORING.fullmatch(function) else Kind.FRAMEWORK
