"""What an event is, from its name: the one place that knows the names.

Source: the TraceMe annotations in TensorFlow's, XLA's and JAX's sources; CUDA and HIP runtime API
references for which calls block; the HLO opcodes of `hlo_opcode.h`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.importers.shared.cuda import kind_of, named_direction
from stepwhy.kernel_names import activity_row, instruction_row
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Copy, Kind

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

# --- host threads ------------------------------------------------------------------------------

BOOKKEEPING = regex(r"ThreadpoolListener::|MemoryAllocation$|MemoryDeallocation$|end: ")
"""Instants that carry no time: the profiler's own marks, and single allocations."""

_TF_OP = regex(r"(?P<node>[^\s:$]+):(?P<op>_?[A-Z]\w*)")
_EAGER_OP = regex(r"EagerLocalExecute: (?P<op>[A-Z_][A-Za-z]\w*)")
_FUNCTION = regex(r"__(?:inference|forward|backward)_")
EAGER_KERNEL = regex(r"KernelAndDevice(?:Func|Op)::Run(?:Async)?")
"""Where an eager operation runs on the CPU; it runs under the name of its caller."""

CONTROL_FLOW = regex(
    r"(?:Stateful|Stateless)?(?:PartitionedCall|While|If|Case)|RemoteCall|(?:Ref)?(?:Enter|Exit|"
    r"Switch|Merge|NextIteration)|SymbolicGradient"
)
"""Graph ops that only call others."""

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


def is_api_call(name: str) -> bool:
    """Whether the name is a function of the device API."""
    return _API.fullmatch(name) is not None


@lru_cache(maxsize=1 << 14)
def api_kind(name: str) -> Kind:
    """What a call of the device API is; one that is named after its kernel launches it."""
    if _API_SYNC.search(name):
        return Kind.SYNC
    if _API_LOAD.search(name):
        return Kind.COMPILE
    if _API_LAUNCH.search(name) or not is_api_call(name):
        return Kind.LAUNCH
    return Kind.RUNTIME


@lru_cache(maxsize=1 << 16)
def host_kind(name: str) -> Kind | None:
    """What an annotation of the framework is, None for a name that it does not use."""
    return next((kind for kind, pattern in _HOST_KINDS if pattern.fullmatch(name)), None)


# --- devices -----------------------------------------------------------------------------------

_CALLING_HLO = regex(r"(?:while|conditional|call|async-(?:start|update|done))(?:[.\d]|$)")
# A fusion over both cores of a chip shows its parts below itself.
_CALLING_CATEGORIES = frozenset(
    {"while", "conditional", "call", "async-start", "async-update", "async-done", "megacore fusion"}
)
_HOST_COPIES = {"host send": Copy.D2H, "host recv": Copy.H2D}
_MOVING_HLO = regex(r"(?:copy|slice|dynamic-slice|dynamic-update-slice)\b")
_DETAIL = regex(r"(\w+):(\S+)")


CALLBACK_HLO = regex(r"(?:pure_callback|io_callback|debug_callback|debug_print)(?:\.\d+)?")
"""Instructions of JAX on a CPU that call Python of the program."""


def hlo_kind(name: str, category: str = "") -> Kind:
    """What an HLO instruction is on the device that runs it.

    Args:
        name: E.g. 'all-reduce-start.3'.
        category: Its category, where the compiler gave one.
    """
    # Numbers tell instructions of a program apart, not what they are.
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
    # What it calls stands on the same line.
    calls = category in _CALLING_CATEGORIES or _CALLING_HLO.match(name)
    return Kind.DEVICE_ANNOTATION if calls else Kind.KERNEL


def async_hlo_kind(name: str, category: str = "") -> Kind:
    """What an instruction is that runs beside the others: no computation of the core itself.

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
    """Which way an instruction copies, as its category tells ('host send-done')."""
    return _HOST_COPIES.get(category.removesuffix("-done"), Copy.NONE)


@lru_cache(maxsize=1 << 16)
def stream_kind(name: str) -> Kind:
    """What an activity on a stream of a GPU is."""
    return kind_of(activity_row(name))


class CopyDetails(NamedTuple):
    """A copy as its name and details tell it; see the columns of the same names."""

    copy: Copy
    bytes: int
    pageable: int


@lru_cache(maxsize=1 << 14)
def copy_details(name: str, details: str) -> CopyDetails:
    """Direction, size and host memory of a copy.

    Args:
        name: Of the activity, or of the API call that made it.
        details: 'kind_src:pageable kind_dst:device size:65536 dest:0 async:1', older without the
            first two; a size of 0 stands for 'not recorded'.
    """
    fields = dict(_DETAIL.findall(details))
    size = fields.get("size", "")
    ends = {fields.get("kind_src", ""), fields.get("kind_dst", "")}
    pageable = 1 if "pageable" in ends else 0 if "pinned" in ends else NULL
    is_size = size.isdecimal() and len(size) < 18 and int(size) > 0
    return CopyDetails(named_direction(name), int(size) if is_size else NULL, pageable)


# Calls of tf.data into functions of the user's pipeline; their ids mark the ops that run for them.
PIPELINE_CALL = regex(r"InstantiatedCapturedFunction::")
END_MARK = "end: "
"""Begins the name of a mark at the end of an instruction that runs asynchronously."""


def needless_ids(names: Iterable[str]) -> frozenset[str]:
    """Statistics that join events, where there are none to be joined.

    Args:
        names: Of all events, and others.
    """
    calls = ends = False
    for name in names:
        calls = calls or PIPELINE_CALL.match(name) is not None
        ends = ends or name.startswith(END_MARK)
    return frozenset((() if calls else ("id",)) + (() if ends else ("_c", "_p")))
