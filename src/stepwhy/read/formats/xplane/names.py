"""Kinds of events by their names; no other module knows these names.

Source: the TraceMe annotations in TensorFlow's, XLA's and JAX's sources; CUDA and HIP runtime API
references for which calls block; the HLO opcodes of `hlo_opcode.h`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import activity_row, instruction_row
from stepwhy.read.shared.cuda import kind_of, named_direction
from stepwhy.trace import NULL, Copy, Kind

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

# --- host threads ------------------------------------------------------------------------------

BOOKKEEPING = regex(r"ThreadpoolListener::|MemoryAllocation$|MemoryDeallocation$|end: ")
"""Instants, which have no duration: the profiler's own marks, and single allocations."""

_TF_OP = regex(r"(?P<node>[^\s:$]+):(?P<op>_?[A-Z]\w*)")
_EAGER_OP = regex(r"EagerLocalExecute: (?P<op>[A-Z_][A-Za-z]\w*)")
_FUNCTION = regex(r"__(?:inference|forward|backward)_")
EAGER_KERNEL = regex(r"KernelAndDevice(?:Func|Op)::Run(?:Async)?")
"""Runs an eager operation on the CPU; the enclosing event has the operation's name."""

CONTROL_FLOW = regex(
    r"(?:Stateful|Stateless)?(?:PartitionedCall|While|If|Case)|RemoteCall|(?:Ref)?(?:Enter|Exit|"
    r"Switch|Merge|NextIteration)|SymbolicGradient"
)
"""Graph ops that only call others."""

HOST_COPY = regex(r"(?:H2D|D2H) Dispatch")
"""A thread of XLA copies an array of the host for a CPU device; with GPUs, it only stages it."""

ARRAY_READ = regex(r"np\.asarray\(jax\.Array\)")
"""Reads an array of JAX, as `float` does, too; it waits until a device has computed it."""

_API = regex(r"(?:cuda|cu|hip)[A-Z]\w+")
_API_SYNC = regex(
    r"Synchronize|^(?:cuda|hip)Memcpy(?:2D|3D|HtoD|DtoH|DtoD|WithStream)?$"
    r"|^cuMemcpy(?:HtoD|DtoH|DtoD)?(?:_v2)?$"
)
_API_LAUNCH = regex(r"Launch|Memcpy|Memset")
_API_LOAD = regex(r"ModuleLoad|LibraryLoad")

_HOST_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        Kind.INPUT,
        regex(
            r"(?:EagerLocalExecute: )?\w*Iterator\w*GetNext\w*(?:Op::\w+)?|Iterator::.*"
            r"|DataIterator\w*|BlockingGetNext|\w*Infeed\w*Enqueue\w*"
        ),
    ),
    (
        Kind.COMPILE,
        regex(
            r"tf\.function-graph_building|backend_compile\w*|lower_(?:sharding|jaxpr)\w*"
            r"|trace_to_jaxpr\w*"
            r"|compile_xla|XlaCompile\w*|\w*(?:Client|Compiler|Executable)\w*::Compile\w*"
            r"|Compile(?:AndLoad)?$|XlaLocalLaunchBase::Compile\w*"
            r"|(?:\w+::)*[Aa]utotun\w*"
        ),
    ),
    (
        Kind.SYNC,
        regex(
            r"(?:\w+::)*(?:BlockHostUntil\w+|Await\w*|SynchronizeAllActivity|BlockUntil\w*)"
            r"|block_until_ready|TFE_TensorHandleResolve|EagerContext::Sync\w*"
        ),
    ),
    (Kind.STORAGE, regex(r"EagerLocalExecute: (?:Save|Write|Flush)\w*|SaveV2|RestoreV2")),
    (Kind.WAIT, regex(r"RecvTensor\w*|RendezvousMgr::Recv\w*|RpcRecvTensor\w*")),
    (
        Kind.FRAMEWORK,
        regex(
            r"\w+(?:<[^>]*>)?::.*|TFE_\w+|Eager\w+.*|PJRT_\w+.*|PjitFunction\(.*|FunctionRun|Executor\w+.*"
            r"|ParseArguments|Validate\w+|convert_to_tensor|tf\.\w+.*|shard_args|DevicePut\w*"
            r"|cpp_pjit_\w+|RecordUsage|Wait for \w+ holds|ComputeSemaphore\w+|Handle input\w*.*"
            r"|Resolve constant globals|Build buffer allocations|MakeOutputBuffers|Prefetch\w+"
            r"|ThenExecuteCallback|H2D Dispatch|D2H Dispatch|ParallelFor|\w+:XLA GPU module"
            r"|\w+(?:Produce|Consume)|AllocateOutputBuffers\w*|MemCpyAsync|BaseCollective\w+.*"
            r"|TransferTo\w+|BufferFrom\w+|CopyTo\w+|[Bb]atched_?[Cc]opy\w+.*|RemoteCall\w*"
            r"|Execute\w+(?:\.\w+)?"
        ),
    ),
)

_JITTED = regex(r"PjitFunction\((?P<function>.+)\)")


@lru_cache(maxsize=1 << 16)
def graph_op(name: str) -> tuple[str, str] | None:
    """Node and op type of a graph op ('node:Op'), None for other events."""
    match = _TF_OP.fullmatch(name)
    return (match["node"], match["op"]) if match else None


@lru_cache(maxsize=1 << 14)
def eager_op(name: str) -> str:
    """The op that an eager call executes, '' for other events and for calls of a graph."""
    match = _EAGER_OP.fullmatch(name)
    return match["op"] if match and not _FUNCTION.match(match["op"]) else ""


def jitted_function(name: str) -> str:
    """The function that a call of JAX runs ('PjitFunction(step)'), '' for other events."""
    match = _JITTED.fullmatch(name)
    return match["function"] if match else ""


def is_api_call(name: str) -> bool:
    """Whether the name is a function of the device API."""
    return _API.fullmatch(name) is not None


@lru_cache(maxsize=1 << 14)
def api_kind(name: str) -> Kind:
    """Kind of a device API call; a call with the name of a kernel launches it."""
    if _API_SYNC.search(name):
        return Kind.SYNC
    if _API_LOAD.search(name):
        return Kind.COMPILE
    if _API_LAUNCH.search(name) or not is_api_call(name):
        return Kind.LAUNCH
    return Kind.RUNTIME


@lru_cache(maxsize=1 << 16)
def host_kind(name: str) -> Kind | None:
    """Kind of an annotation by the framework, None for names that it does not use."""
    return next((kind for kind, pattern in _HOST_KINDS if pattern.fullmatch(name)), None)


# --- devices -----------------------------------------------------------------------------------

_CALLING_HLO = regex(r"(?:while|conditional|call|async-(?:start|update|done))(?:[.\d]|$)")
# A fusion over both cores of a chip encloses its instructions.
_CALLING_CATEGORIES = frozenset(
    {"while", "conditional", "call", "async-start", "async-update", "async-done", "megacore fusion"}
)
_HOST_COPIES = {"host send": Copy.D2H, "host recv": Copy.H2D}
_MOVING_HLO = regex(r"(?:copy|slice|dynamic-slice|dynamic-update-slice)\b")
_DETAIL = regex(r"(\w+):(\S+)")


CALLBACK_HLO = regex(r"(?:pure_callback|io_callback|debug_callback|debug_print)(?:\.\d+)?")
"""Instructions of JAX that call Python of the program.

A GPU does not run them: the thread that launches its work does, as ranges without a module.
"""


def hlo_kind(name: str, category: str = "") -> Kind:
    """Kind of an HLO instruction on the device that runs it.

    Args:
        name: Name of the instruction, e.g. 'all-reduce-start.3'.
        category: Category from the compiler, '' if it is not recorded.
    """
    # The number only makes the name unique within its program.
    kind, _, number = name.rpartition(".")
    return _hlo_kind(kind if number.isdecimal() else name, category)


@lru_cache(maxsize=1 << 14)
def _hlo_kind(name: str, category: str) -> Kind:
    if hlo_copy(category) is not Copy.NONE:  # named like an exchange between devices
        return Kind.MEMCPY
    kinds = kind_of(instruction_row(name)), kind_of(instruction_row(category))
    if Kind.COLLECTIVE in kinds:
        return Kind.COLLECTIVE
    if kinds[0] is not Kind.KERNEL:
        return kinds[0]
    if "infeed" in category or "outfeed" in category:
        return Kind.DEVICE_WAIT
    # The instructions that it calls are on the same line.
    calls = category in _CALLING_CATEGORIES or _CALLING_HLO.match(name)
    return Kind.DEVICE_ANNOTATION if calls else Kind.KERNEL


def async_hlo_kind(name: str, category: str = "") -> Kind:
    """Kind of an instruction that runs beside the others, so it is no computation of the core.

    Args:
        name: As for `hlo_kind`.
        category: As for `hlo_kind`.
    """
    kind = hlo_kind(name, category)
    if kind is not Kind.KERNEL:
        return kind
    return Kind.MEMCPY if _MOVING_HLO.match(name) else Kind.DEVICE_ANNOTATION


@lru_cache(maxsize=1 << 10)
def hlo_copy(category: str) -> Copy:
    """Direction in which an instruction copies, from its category ('host send-done')."""
    return _HOST_COPIES.get(category.removesuffix("-done"), Copy.NONE)


@lru_cache(maxsize=1 << 16)
def stream_kind(name: str) -> Kind:
    """Kind of an activity on a stream of a GPU."""
    return kind_of(activity_row(name))


class CopyDetails(NamedTuple):
    """Direction, size and host memory of a copy; see the columns of the same names."""

    copy: Copy
    bytes: int
    pageable: int


@lru_cache(maxsize=1 << 14)
def copy_details(name: str, details: str) -> CopyDetails:
    """Direction, size and host memory of a copy.

    Args:
        name: Name of the activity or of the API call that started it.
        details: 'kind_src:pageable kind_dst:device size:65536 dest:0 async:1'; older profilers omit
            the first two; a size of 0 means 'not recorded'.
    """
    fields = dict(_DETAIL.findall(details))
    size = fields.get("size", "")
    ends = {fields.get("kind_src", ""), fields.get("kind_dst", "")}
    pageable = 1 if "pageable" in ends else 0 if "pinned" in ends else NULL
    is_size = size.isdecimal() and len(size) < 18 and int(size) > 0
    return CopyDetails(named_direction(name), int(size) if is_size else NULL, pageable)


# Calls of tf.data into functions of the user's pipeline; the ops that they run have the same id.
PIPELINE_CALL = regex(r"InstantiatedCapturedFunction::")
END_MARK = "end: "
"""Prefix of the name of a mark at the end of an asynchronous instruction."""
CONTINUATION = "ThunkExecutor::Execute"
"""Runs instructions of a CPU, such as those that waited for an asynchronous one."""


def unused_ids(names: Iterable[str]) -> frozenset[str]:
    """Statistics that link events, if no event needs the link.

    Args:
        names: Names of all events; other texts may be among them.
    """
    calls = ends = False
    for name in names:
        calls = calls or PIPELINE_CALL.match(name) is not None
        ends = ends or name.startswith(END_MARK)
    return frozenset((() if calls else ("id",)) + (() if ends else ("_c", "_p")))
