"""Op types and node names of TensorFlow graphs in the trace's terms: name, kind and phase."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names import Family, kernel_row, operation_row
from stepwhy.trace import Copy, Kind, Phase

if TYPE_CHECKING:
    import re

# oneDNN kernels take the place of ops at graph construction: '_MklNativeConv2D' is a Conv2D. Ops
# that convert between its layouts have no counterpart and keep their names.
_ONEDNN = regex(r"_Mkl(?:Native)?(?!ToTf|InputConversion)(?P<op>\w+)")
# Fusions made by the graph optimizer are private ops, spelled '_FusedConv2D' elsewhere.
_PRIVATE_FUSION = regex(r"Fused(?!BatchNorm(?:Grad)?(?:V\d)?$)\w+")

# What an op is where it runs on an executor, first match wins. Sources: the op registry of
# TensorFlow (names), `sync_replicas_optimizer.py` (its token queue is a wait for other workers).
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        Kind.WAIT,
        regex(r"_?(?:Host)?(?:Recv|Send)|\w*AccumulatorTakeGradient|CollectiveWait\w*"),
    ),
    (
        Kind.INPUT,
        regex(
            r"\w*Queue(?:De|En)queue\w*|\w*GetNext\w*|\w*(?:Uns|S)tage|\w*Unstage\w*|ReaderRead\w*"
            r"|MakeIterator"
        ),
    ),
    (
        Kind.STORAGE,
        regex(
            r"(?:Save|Restore|Write|MergeV2Checkpoints|ShardedFilename)\w*|\w+Summary(?:V\d)?|\w*SummaryWriter\w*"
        ),
    ),
)
_TABLE_KINDS = {Family.COMMUNICATION: Kind.COLLECTIVE, Family.CALLBACK: Kind.PYTHON}
_OTHER_WORKERS = regex(r"(?:^|/)sync_(?:rep|token)")

_BACKWARD_SCOPE = regex(r"(?:^|/)(?:gradients(?:_\d+)?|gradient_tape)/|_grad/")
_BACKWARD_OP = regex(r"\w+Backprop\w*|\w+Grad(?:V\d|Ex)?")
_OPTIMIZER_OP = regex(r"(?:Resource)?(?:Sparse)?Apply\w+")
_OPTIMIZER_SCOPE = regex(
    r"(?:^|/)(?:GradientDescent|Momentum|Adam(?:W|ax)?|Ada(?:grad|grad_?DA|[dD]elta|factor)|RMSProp|"
    r"Ftrl|SGD|Nadam|Proximal\w+|(?!(?:Arithmetic|Layout|Loop)Optimizer/)\w*[Oo]ptimizer"
    # Keras names the scope after the optimizer: `keras.src.optimizers`.
    r"|adam(?:w|ax)?|ada(?:grad|delta|factor)|ftrl|lamb|lion|muon|nadam|rmsprop|sgd)(?:_\d+)?(?:/|$)"
)
_SAVER_SCOPE = regex(r"(?:^|/)save(?:_\d+)?/")
_BOOKKEEPING = frozenset({"NoOp", "_SOURCE", "_SINK", "_Arg", "_Retval", "_FusedNoOp"})

_COPY = regex(r"(?:MEMCPY|Memcpy)\s*(?P<way>\w*)")
_COPIES = {
    "HtoD": Copy.H2D,
    "DtoH": Copy.D2H,
    "DtoD": Copy.D2D,
    "PtoP": Copy.PEER,
    "HtoH": Copy.H2H,
}
_WAYS = {copy: way for way, copy in _COPIES.items()}
# Tensors that the RPC layer moves between server processes (`worker_cache_logger.cc`).
TRANSFERS = frozenset({"RecvTensor", "RecvBuf"})


@lru_cache(maxsize=4096)
def normalise_op(op: str) -> str:
    """The op type as the program wrote it, whichever library's kernel ran for it.

    Args:
        op: E.g. '_MklNativeConv2D' -> 'Conv2D', '_MklNativeFusedConv2D' -> '_FusedConv2D'.
    """
    match = _ONEDNN.fullmatch(op)
    if match is None:
        return op
    plain = match["op"]
    return f"_{plain}" if _PRIVATE_FUSION.fullmatch(plain) else plain


@lru_cache(maxsize=65536)
def executor_kind(op: str, node: str) -> Kind:
    """Kind of an op on the executor of a CPU device: waiting is never computation.

    Args:
        op: Normalised op type.
        node: Node name; distinguishes the token queue of synchronous replicas from input queues.
    """
    for kind, pattern in _KINDS:
        if pattern.fullmatch(op):
            waits = kind is Kind.INPUT and _OTHER_WORKERS.search(node)
            return Kind.WAIT if waits else kind
    row = operation_row(op)
    return _TABLE_KINDS[row.family] if row else Kind.KERNEL


@lru_cache(maxsize=4096)
def device_kind(op: str, node: str) -> Kind:
    """Kind of an activity on an accelerator's stream.

    Args:
        op: Op type, or the tracer's text in its place ('MEMCPYHtoD').
        node: Node name or kernel name.
    """
    if _COPY.match(op):
        return Kind.MEMCPY
    if op.upper().startswith("MEMSET"):
        return Kind.MEMSET
    row = operation_row(op) or kernel_row(node)
    return Kind.COLLECTIVE if row and row.family is Family.COMMUNICATION else Kind.KERNEL


def copy_direction(op: str) -> Copy:
    """Direction of a copy named like 'MEMCPYHtoD'."""
    match = _COPY.match(op)
    return _COPIES.get(match["way"], Copy.NONE) if match else Copy.NONE


def copy_name(copy: Copy) -> str:
    """The tracer's name for a copy, 'MEMCPYHtoD'; 'MEMCPY' when the direction is not known."""
    return f"MEMCPY{_WAYS.get(copy, '')}"


@lru_cache(maxsize=65536)
def phase_of(op: str, node: str, kind: Kind) -> Phase:
    """The phase of an op, by its type and its name scope.

    Args:
        op: Normalised op type.
        node: Node name with its name scope.
        kind: Its kind, see `executor_kind` and `device_kind`.
    """
    if kind is Kind.INPUT:
        return Phase.INPUT
    if kind in {Kind.WAIT, Kind.COLLECTIVE}:
        return Phase.COMMUNICATION
    if kind is Kind.MEMCPY:
        return Phase.UNKNOWN
    if kind is Kind.STORAGE or _SAVER_SCOPE.search(node):
        return Phase.OTHER
    return _phase_of_compute(op, node)


def _phase_of_compute(op: str, node: str) -> Phase:
    if _OPTIMIZER_OP.fullmatch(op):
        return Phase.OPTIMIZER
    if _BACKWARD_SCOPE.search(node) or _BACKWARD_OP.fullmatch(op):
        return Phase.BACKWARD
    if _OPTIMIZER_SCOPE.search(node):
        return Phase.OPTIMIZER
    return Phase.OTHER if op in _BOOKKEEPING else Phase.FORWARD
