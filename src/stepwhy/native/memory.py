"""What kernels do with memory: unaligned loads and stores, and questions to 32 bytes at once.

Only the compiler imports this module, and only kernels call what is in it. Everything is int64,
addresses too: numba turns sums of signed and unsigned integers into doubles.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE = ir.IntType(8)
_LANES = 32


def _pointer(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


def _load(builder, address, kind):
    value = builder.load(_pointer(builder, address, kind))
    value.align = 1
    return value


@intrinsic
def byte_at(_, address):
    """The byte at an address, as int64."""

    def code(_, builder, __, args):
        return builder.zext(_load(builder, args[0], _BYTE), ir.IntType(64))

    return types.int64(types.int64), code


@intrinsic
def quarter_at(_, address):
    """The int16 at an address, as int64."""

    def code(_, builder, __, args):
        return builder.sext(_load(builder, args[0], ir.IntType(16)), ir.IntType(64))

    return types.int64(types.int64), code


@intrinsic
def half_at(_, address):
    """The int32 at an address, as int64."""

    def code(_, builder, __, args):
        return builder.sext(_load(builder, args[0], ir.IntType(32)), ir.IntType(64))

    return types.int64(types.int64), code


@intrinsic
def word_at(_, address):
    """The eight bytes from an address, the first one lowest, as int64."""

    def code(_, builder, __, args):
        return _load(builder, args[0], ir.IntType(64))

    return types.int64(types.int64), code


def _store(bits):
    def code(context, builder, _, args):
        kind = ir.IntType(bits)
        value = args[1] if bits == 64 else builder.trunc(args[1], kind)
        builder.store(value, _pointer(builder, args[0], kind)).align = 1
        return context.get_dummy_value()

    return code


@intrinsic
def put_byte(_, address, value):
    """Store the lowest byte of an int64."""
    return types.void(types.int64, types.int64), _store(8)


@intrinsic
def put_half(_, address, value):
    """Store the lower half of an int64."""
    return types.void(types.int64, types.int64), _store(32)


@intrinsic
def put_word(_, address, value):
    """Store an int64."""
    return types.void(types.int64, types.int64), _store(64)


def _mask(builder, bits):
    return builder.zext(builder.bitcast(bits, ir.IntType(_LANES)), ir.IntType(64))


def _all_lanes(byte):
    return ir.Constant(ir.VectorType(_BYTE, _LANES), [byte] * _LANES)


@intrinsic
def string_marks(_, address):
    """Which of 32 bytes end a plain piece of a JSON string: quote, backslash, control character.

    The first byte is the lowest bit.
    """

    def code(_, builder, __, args):
        text = _load(builder, args[0], ir.VectorType(_BYTE, _LANES))
        quote = builder.icmp_unsigned("==", text, _all_lanes(ord('"')))
        escape = builder.icmp_unsigned("==", text, _all_lanes(ord("\\")))
        control = builder.icmp_unsigned("<", text, _all_lanes(32))
        return _mask(builder, builder.or_(builder.or_(quote, escape), control))

    return types.int64(types.int64), code


@intrinsic
def high_marks(_, address):
    """Which of 32 bytes are not ASCII."""

    def code(_, builder, __, args):
        text = _load(builder, args[0], ir.VectorType(_BYTE, _LANES))
        return _mask(builder, builder.icmp_signed("<", text, _all_lanes(0)))

    return types.int64(types.int64), code


@intrinsic
def trailing_zeros(_, word):
    """Number of zero bits below the lowest one that is set; 64 where none is."""

    def code(_, builder, __, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code
