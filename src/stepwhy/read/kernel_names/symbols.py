"""A kernel's own name, out of its signature or mangled symbol.

Source: the Itanium C++ ABI, <nested-name> and <source-name>.
"""

from __future__ import annotations

from functools import lru_cache

from stepwhy.base.patterns import regex

# Length of the next part; L marks names that are local to a file.
_SIZE = regex(r"L?(\d{1,9})")
_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::")
_CLONE = " [clone "
_OBJECT = ".kd"  # of the kernel's descriptor in AMD's objects
# Kernels that only call what their first template argument that is a type names.
_WRAPPER = regex(
    r"(?:cutlass\w*::(?:Kernel2?|device_kernel)|ck_tile::kentry|\w+::enable_sm\w+)<"
    r"(?:(?:(?:\(\w+\))?\d+|ck_tile::gfx\w+), *)*"
)
# The same in mangled symbols: the wrapper, and the names in its own namespace ('NS_') behind sizes.
_MANGLED_WRAPPER = regex(r"cutlass\w*::(?:Kernel2?|device_kernel)$|ck_tile::kentry$")
_MANGLED_ARGUMENT = regex(r"I(?:Li\d+E)*NS_")
BRACKETS = {"<": 1, "(": 1, "[": 1, "{": 1, ">": -1, ")": -1, "]": -1, "}": -1}
"""How much deeper each bracket nests."""


def qualified_name(symbol: str) -> str:
    """A function's name with its namespaces, from its mangled symbol; other names as they are.

    Template and function arguments are left out: a symbol of hundreds of letters becomes
    'at::native::softmax'.
    """
    if not symbol.startswith("_Z"):
        return symbol
    nested = symbol.startswith("_ZN")
    position = len(symbol) - len(symbol[2:].lstrip("NKVrRO" if nested else ""))
    parts, position = _parts(symbol, position, most=len(symbol) if nested else 1)
    name = "::".join(parts)
    argument = _MANGLED_ARGUMENT.match(symbol, position)
    if argument and _MANGLED_WRAPPER.match(name):
        parts, _ = _parts(symbol, argument.end(), most=len(symbol))
        # What it wraps is mostly in the same namespace, which is not repeated.
        name = "::".join([name.partition("::")[0], *parts]) if parts else name
    return name or symbol


def plain_signature(name: str) -> str:
    """A kernel's signature without anonymous namespaces and without the compiler's suffixes."""
    text = qualified_name(name).partition(_CLONE)[0].removesuffix(_OBJECT)
    for namespace in _ANONYMOUS:
        text = text.replace(namespace, "")
    return text


def _parts(symbol: str, position: int, most: int) -> tuple[list[str], int]:
    """At most so many names that follow each other in a symbol, and where they end."""
    parts: list[str] = []
    while len(parts) < most and (match := _SIZE.match(symbol, position)):
        end = match.end() + int(match[1])
        part = symbol[match.end() : end]
        if not part:
            break
        position = end
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N") else part)
    return parts, position


@lru_cache(maxsize=1 << 16)
def own_name(name: str) -> str:
    """A kernel's name with its namespaces, but without result, arguments and wrappers around it.

    'void cutlass::Kernel2<cutlass_80_sgemm>(cutlass_80_sgemm::Params)' -> 'cutlass_80_sgemm'.
    """
    text = plain_signature(name)
    text = text[_start(text) :]
    ends = "<("
    while found := _WRAPPER.match(text):
        text, ends = text[found.end() :], "<(>,"
    cut = min((at for at in map(text.find, ends) if at >= 0), default=len(text))
    return text[:cut].strip() or name


def _start(signature: str) -> int:
    """Where a name begins: behind the type of the result, which a blank ends."""
    if not signature.startswith(("void ", "std::enable_if<")):
        return 0
    depth = 0
    for at, letter in enumerate(signature):
        depth += BRACKETS.get(letter, 0)
        if letter == " " and not depth:
            return at + 1
    return 0
