"""Kernel names as people say them: the library or operation, the type, the tile.

A signature of hundreds of letters, most of them template arguments, becomes
'vectorized_elementwise CUDAFunctor_add<float>'. Two kernels may have the same short name.

Source: names of PyTorch's `Loops.cuh`, `Reduce.cuh` and `MultiTensorApply.cuh`, CUTLASS's and
Tensile's schemes of names, and names that cuBLAS, cuDNN, MIOpen and TensorRT-LLM recorded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names.symbols import BRACKETS, own_name, plain_signature

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

LONGEST: Final = 72
"""Characters of a short name; a longer one loses its middle."""
_BEGIN, _END = 46, 21
# Recorded signatures have up to 5,000 letters, and functions in 4 templates.
_LONGEST_READ = 1 << 13
_DEEPEST = 16

# Names that are spelled by a scheme, and what to show of it.
_SCHEMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        regex(
            r"cutlass_(?:\d+_)?(?:wmma_)?(?:tensorop|simt)_(?P<op>\w+?)_(?P<tile>\d+x\d+)"
            r"(?:_\d+x\d+)?_(?P<layout>[a-z]+)_.*"
        ),
        "CUTLASS {op} {tile} {layout}",
    ),
    (
        regex(
            r"(?:Custom_)?Cijk_(?P<layout>A[a-z]+_B[a-z]+)_(?P<type>[A-Z0-9]+)_.*?"
            r"MT(?P<tile>\d+x\d+x\d+).*"
        ),
        "Tensile gemm {type} {tile} {layout}",
    ),
    (
        regex(
            r"sm\d+_xmma_(?P<op>[a-z]+)_\w*?[a-z]+\d+_(?P<type>tf32|bf16|f16|f32|f64|i8|e4m3|e5m2)"
            r"\w*?_tilesize(?P<tile>\d+x\d+x\d+)_\w*?(?P<library>cublas|cudnn)\w*"
        ),
        "{library} {op} {type} {tile}",
    ),
    (
        regex(r"cudnn_generated_fort_native_(?P<op>sdpa_\w+?)_knob_\d+_(?P<tile>\d+x\d+x\d+).*"),
        "cuDNN {op} {tile}",
    ),
    (
        regex(
            r"(?P<op>igemm_(?:fwd|bwd|wrw))_gtcx?\d*_(?P<layout>[a-z]+)_(?P<type>[a-z]+\d+)_.*?"
            r"bt(?P<tile>\d+x\d+x\d+).*"
        ),
        "MIOpen {op} {type} {tile} {layout}",
    ),
    (
        regex(r"bmm_(?P<type>\w+?)_t(?P<tile>\d+x\d+x\d+).*"),
        "TensorRT-LLM bmm {type} {tile}",
    ),
    (regex(r"(?P<op>fmhaSm\d+\w*?Kernel_Qkv\w+?H\d+)\w*"), "TensorRT-LLM {op}"),
    (
        regex(r"kernel_cutlass_kernel_[a-z0-9_]*(?P<op>[A-Z]\w*?)_(?:object_at|tensorptr).*"),
        "CuTe {op}",
    ),
)
_LIBRARIES = {"cublas": "cuBLAS", "cudnn": "cuDNN"}
# Types of a product's matrices in Tensile, by the first letter. Source: Tensile's DataType.py.
_TENSILE_TYPES = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c32", "Z": "c64"}
# Which matrix is transposed, by the order of the product's indices.
_TENSILE_LAYOUTS = {
    "Ailk_Bljk": "NN",
    "Ailk_Bjlk": "NT",
    "Alik_Bljk": "TN",
    "Alik_Bjlk": "TT",
}

# Namespaces that everybody leaves out.
_NAMESPACE = regex(
    r"^(?:at::(?:native::|cuda::)*|at_cuda_detail::|internal::|Eigen::internal::"
    r"|(?P<kept>rocprim::|ck::|tensorflow::|cub::)(?:\w+::)*)"
)
_QUALIFIERS = regex(r"\b(?:\w+::)+")
# What only applies a function that an argument names.
_LAUNCHER = regex(r"elementwise|reduce_kernel$|multi_tensor_apply|PointwiseApply")
_APPLIED = regex(
    r"^(?:void )?(?:\w+::)*(?:gpu_kernel_impl(?:_nocast)?|ReduceOp|func_wrapper_t"
    r"|[AB]?(?:Unary|Binary)Functor)<"
)
_NUMBER = regex(r"^(?:\(\w[\w ]*\))?-?\d+\w*$|^(?:\(bool\))?(?:true|false)$")
_FLOAT = regex(
    r"^(?:float|double|(?:__)?half|(?:__hip_|__nv_|hip_)bfloat16|c10::\w+|\w+::(?:half|bfloat16)\w*)$"
)
_INTEGER = regex(r"^(?:int|long|bool|short|(?:un)?signed (?:char|int|long))$")
_METADATA = regex(r"(?:\w+::)*TensorList\w*Metadata<")
_LAMBDA = regex(r"[{\[]lambda\((?P<type>[\w:]*)")
_EIGEN = regex(r"scalar_\w+_op|Tensor(?!Assign|CwiseBinary|CwiseUnary|CwiseNullary)\w+Op\b")
_SUFFIX = regex(r"(?:_kernel|_impl)*(?:_cuda)?(?:_kernel|_impl)*$")
_IS_SIGNATURE = regex(
    r"^(?:void |std::enable_if<|_Z|at::(?:native|cuda)::)|\(anonymous namespace\)::|<unnamed>::"
    r"|^(?:\w+::)+\w+[(<].*[)>]$|^\w+\(.*[*&<].*\)$"
)
_IS_SCHEME = regex(
    r"^(?:cutlass_|Cijk_|Custom_|sm\d+_xmma|cudnn_gen|igemm_|bmm_|fmhaSm|kernel_cutlass)"
)


@lru_cache(maxsize=1 << 14)
def short_name(name: str) -> str:
    """What a person calls a kernel; a name that is no kernel's signature stays as it is.

    Args:
        name: Name of a kernel, or of anything else.
    """
    if len(name) > _LONGEST_READ:
        return name
    if not _IS_SIGNATURE.search(name):
        own = name.removesuffix(".kd")
        return _middle_out(_apply_scheme(own)) if _IS_SCHEME.match(own) else name
    own = own_name(name)
    if _apply_scheme(own) != own:
        return _middle_out(_apply_scheme(own))
    return _middle_out(_add_argument(own, list(_arguments(plain_signature(name), own))))


def _apply_scheme(own: str) -> str:
    """A name by the scheme of its library; the name itself where it has none."""
    for pattern, shown in _SCHEMES:
        found = pattern.fullmatch(own)
        if found:
            parts = found.groupdict()
            if "Tensile" in shown:
                parts["type"] = _TENSILE_TYPES.get(parts["type"][0], parts["type"])
                parts["layout"] = _TENSILE_LAYOUTS.get(parts["layout"], parts["layout"])
            parts["library"] = _LIBRARIES.get(parts.get("library", ""), "")
            return shown.format(**parts)
    return own


def _add_argument(own: str, arguments: list[str]) -> str:
    """A kernel's own name with the template argument that says most."""
    base = _NAMESPACE.sub(lambda found: found["kept"] or "", own)
    if "EigenMetaKernel" in base:
        found = _EIGEN.search(", ".join(arguments))
        return f"Eigen {found[0]}" if found else base
    if _LAUNCHER.search(base):
        applied = next((text for text in map(_applied, arguments) if text), "")
        if applied:
            return f"{base.replace('_kernel', '')} {applied}"
    return base + _typed(arguments)


def _applied(argument: str, outer: str = "", depth: int = 0) -> str:
    """The function that a template argument applies, '' if it is a number, type or size.

    Args:
        argument: The argument.
        outer: Type that a template around it names, '<float>' or ''.
        depth: Number of templates around it.
    """
    if _APPLIED.match(argument) and depth < _DEEPEST:
        inner = list(_split(argument))
        outer = outer or _typed(inner)
        functions = [text for text in (_applied(one, outer, depth + 1) for one in inner) if text]
        return functions[-1] if functions else ""
    if any(p.match(argument) for p in (_NUMBER, _FLOAT, _INTEGER, _METADATA)):
        return ""
    own = _plain(own_name(argument))
    if "lambda" not in argument:
        return own + (outer or _typed(_split(argument)))
    types = [found["type"] for found in _LAMBDA.finditer(argument) if found["type"]]
    return _SUFFIX.sub("", own) + (outer or _typed(types[-1:]))


def _typed(arguments: Iterable[str]) -> str:
    """The type of what a kernel computes, '<float>'; '' if no argument tells it."""
    types = [text for text in arguments if not _NUMBER.match(text)]
    floats = [text for text in types if _FLOAT.match(text)]
    # Types of integers behind other arguments are those of indices.
    shown = floats[:1] or [text for text in types[:1] if _INTEGER.match(text)]
    return f"<{_plain(shown[0])}>" if shown else ""


def _plain(text: str) -> str:
    """A name without its namespaces."""
    return _QUALIFIERS.sub("", text)


def _arguments(signature: str, own: str) -> Iterator[str]:
    """The template arguments of a kernel, by its own name."""
    at = signature.find(f"{own}<")
    return _split(signature[at:]) if at >= 0 else iter(())


def _split(text: str) -> Iterator[str]:
    """The template arguments at the beginning of a text."""
    begin = text.find("<") + 1
    depth, at = 1, begin
    while begin and depth and at < len(text):
        letter = text[at]
        if text[at : at + 2] != "->" and text[at - 1 : at + 1] != "->":
            depth += BRACKETS.get(letter, 0)
        if depth == 0 or (depth == 1 and letter == ","):
            yield text[begin:at].strip()
            begin = at + 1
        at += 1


def _middle_out(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:_BEGIN]} ... {text[-_END:]}"
