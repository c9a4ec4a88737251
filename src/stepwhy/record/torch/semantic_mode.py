"""Note what each operation of one step reads and makes, and change nothing."""

from __future__ import annotations

import time
from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import user_line
from stepwhy.record.torch.batch_lines import BatchLines
from stepwhy.record.torch.cuda_graphs import CAPTURED, is_any_captured
from stepwhy.record.torch.dispatch_modes import is_special, run_unseen
from stepwhy.record.torch.gradient_use import GradientUse
from stepwhy.record.torch.index_inputs import IndexInputs
from stepwhy.record.torch.lasting_sources import LastingSources
from stepwhy.record.torch.part_use import PartUse
from stepwhy.record.torch.provenance import (
    DATA,
    RANDOM,
    RECORDED,
    REDUCED,
    STATE,
    VARIES,
    Provenance,
    sources_in,
    takes_another_part,
)
from stepwhy.record.torch.repeated_results import NEEDED_AGAIN, RepeatedResults
from stepwhy.record.torch.result_use import ResultUse
from stepwhy.record.torch.separate_products import SeparateProducts
from stepwhy.record.torch.subnormals import Subnormals
from stepwhy.record.torch.tensor_makers import Makers
from stepwhy.record.torch.zero_operands import ZeroOperands

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from stepwhy.record.torch.provenance import Storage

# The step may take so much longer; of the time per operation, PyTorch's own part is not measured.
_MOST_NS = 2_000_000_000
_MOST_PER_OP_NS = 70_000
_MOST_OPS = 50_000
# Its first arguments are the table and the indices.
_LOOKUP = "aten::embedding"
_READ_SCALAR = "aten::_local_scalar_dense"
_NUMBERS = frozenset({int, float})
# They run once for many parameters, whose sizes are not those of a batch.
_OF_PARAMETERS = ("aten::_foreach_", "aten::_fused_")
_WRITE_ALL = ("aten::_fused_", "aten::_amp_")
_OF_PYTORCH = ("aten::", "prims::", "prim::", "profiler::")
_MOST_DIMS = 3  # of features; masks and lengths have fewer
# Elements of a result; what computes only smaller ones takes microseconds.
_LEAST_WORK = 4096
# Elements of a list or an array that becomes a tensor, which takes longer: 50 ns for each.
_LEAST_MADE = 32
_MADE = "aten::lift_fresh"
_PARTS = frozenset({"aten::select", "aten::slice"})
_OF_PARTS = _PARTS | {"aten::narrow", "aten::as_strided", "aten::detach", "aten::lift_fresh"}
_NO_CONSTANT = -1


class StoppedError(Exception):
    """The step cannot be observed to its end; the message completes a sentence about it."""


class _About:
    """What is the same in all calls of an operation."""

    __slots__ = (
        "id", "is_random", "may_read_inputs", "may_repeat", "name", "of_parameters", "writes_all",
        "writes_first",
    )  # fmt: skip

    def __init__(self, name: str, number: int, *, is_random: bool) -> None:
        self.id = number
        self.name = name
        self.is_random = is_random
        self.may_repeat = not is_random and not name.startswith(NEEDED_AGAIN)
        self.of_parameters = name.startswith(_OF_PARAMETERS)
        # The name of an operation that works in place ends so; of others, nothing is known.
        self.writes_first = name.endswith("_") and not name.endswith("__")
        # A batch that is put together is written by parts, and not yet complete.
        self.may_read_inputs = not self.writes_first and name not in _OF_PARTS
        self.writes_all = (self.writes_first and name.startswith(_WRITE_ALL)) or not (
            name.startswith(_OF_PYTORCH)
        )


class StepNotes:
    """Notes of the operations of one step.

    Args:
        state: Parameters, and the state of optimizers.

    Attributes:
        names: Their names, each once.
        ops: Index of the name of each operation, in order.
        inputs: The index inputs.
        gradients: What is done with gradients that are recorded.
        results: What is done with the results.
        parts: Which parts of the results are read.
        repeats: Which operations compute the results of earlier ones again.
        separate: Which layers run separately for rows that could be together.
        subnormals: The operations that read or make subnormal numbers.
        zeros: The products with an operand that is almost only zeros.
        makers: What makes float64 tensors, and indices.
        of_batch: The lines that compute from the batch alone.
        stopped: Why the rest of the step is not noted; None while it is.
    """

    def __init__(self, state: Sequence[Any]) -> None:
        import torch
        from torch import Tensor
        from torch.nn import Parameter

        self._plain: set[type] = {Tensor, Parameter}
        self._task: Any = getattr(torch._C, "_current_graph_task_id", lambda: 0)
        self._places: dict[str, int] = {}
        self.names: list[str] = []
        self.ops: list[int] = []
        self.inputs = IndexInputs()
        self.gradients = GradientUse()
        self._records: Any = torch.is_grad_enabled
        self.stopped: Exception | None = None
        self._dims: list[tuple[int, int, int] | None] = []
        self._shapes: list[tuple[int, tuple[int, ...]]] = []
        self._about: dict[Any, _About] = {}
        self._tensor = Tensor
        self._strided = torch.strided
        self.lines: list[str] = []
        self._line_of: list[int] = []
        self._constants: list[int] = []
        self._own_ns = 0
        self._origins = Provenance()
        self._origins.add_state(state)
        self.results = ResultUse(self._origins)
        self.parts = PartUse(self._origins)
        self.repeats = RepeatedResults(self._origins)
        self.separate = SeparateProducts()
        self.subnormals = Subnormals()
        self.zeros = ZeroOperands()
        self.makers = Makers()
        self.of_batch = BatchLines()

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation as it is, and note it unless noting has stopped.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its further arguments.
        """
        if self.stopped is None:
            self._look(args, kwargs)
        if self.stopped is not None:
            return run_unseen(func, args, kwargs)
        start_ns = time.perf_counter_ns()
        result = func(*args, **kwargs)
        self._note(func, args, kwargs, result, time.perf_counter_ns() - start_ns)
        return result

    def _look(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Stop where values cannot be read, or may be those of a subclass; never raises."""
        if is_any_captured():  # reading from the device would end the capture with an error
            self.stopped = StoppedError(CAPTURED)
            return
        try:
            self._tensors((args, *kwargs.values()))
        except Exception as error:
            self.stopped = error

    def _note(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, took_ns: int
    ) -> None:
        """Note an operation that has returned `result`; never raises."""
        # Not wall time: on a busy machine, the thread waits for its core wherever it is.
        start_ns = time.thread_time_ns()
        self.results.is_paused = True
        try:
            self._add(func, args, kwargs, result, took_ns)
            self._own_ns += time.thread_time_ns() - start_ns
            self._check()
        except Exception as error:
            self.stopped = error
        self.results.is_paused = False

    def _check(self) -> None:
        if self._own_ns > _MOST_NS + _MOST_PER_OP_NS * len(self.ops):
            raise StoppedError("it took too long")
        if len(self.ops) > _MOST_OPS:
            raise StoppedError(f"it has more than {_MOST_OPS:,} operations")

    def _add(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, took_ns: int
    ) -> None:
        about = self._about.get(func)
        if about is None:
            about = self._about[func] = self._describe(func)
        read = self._tensors(args)
        if kwargs:
            read += self._tensors(kwargs.values())
        made = self._tensors((result,))
        storage_of = self._origins.storage
        storages = [storage_of(tensor) for tensor in read]
        if about.name == _MADE:
            storages[0].is_fresh = True
        origins = self._read(about, storages, args)
        if self._task() < 0 and about.may_read_inputs:
            self._note_inputs(about, read)
        if about.name in _PARTS and takes_another_part(about.name, args):
            self._origins.varies(args[0])
            origins |= DATA
        origins = self._with_gradients(about.name, args, read, origins)
        of_state = about.of_parameters
        written = self._written(about, args, kwargs)
        for tensor in written:
            of_state |= self._origins.wrote(tensor, origins)
            self.repeats.wrote(storage_of(tensor))
        results = [self._origins.made(tensor, _reduced(tensor, origins)) for tensor in made]
        call, in_backward = (func, args, kwargs), self._task() >= 0
        self.results.note(*call, storages, results, in_backward=in_backward, took_ns=took_ns)
        known = [(t, storage_of(t)) for t in read], list(zip(made, results, strict=True))
        self.parts.note(*call, *known, in_backward=in_backward)
        changed = [storage_of(tensor) for tensor in written]
        self.separate.note(
            about.name, *known, changed, in_backward=in_backward, records=self._records()
        )
        may_repeat = about.may_repeat and not in_backward
        self.repeats.note(*call, storages, known[1], may_repeat=may_repeat, took_ns=took_ns)
        if not in_backward:
            self.makers.note(about.name, *known)
            self.of_batch.note(about.name, STATE if of_state else origins, made)
        if about.name == _READ_SCALAR:
            self._origins.read_scalar(result, origins)
        elif about.name == _LOOKUP:
            maker = storage_of(args[1]).maker
            self.inputs.add(about.name, user_line(), args[1], int(args[0].shape[-1]), maker)
        tensors, place = (*read, *made), len(self.ops)
        self.subnormals.note(*call, tensors, place=place, took_ns=took_ns)
        self.zeros.made(about.name, *known, place=place)
        self.zeros.note(
            *call, about.name, storage_of, place=place, took_ns=took_ns, in_backward=in_backward
        )
        self.ops.append(about.id)
        shapes = tuple([tuple(t.shape) for t in tensors])
        self._shapes.append((about.id, shapes[-1] if shapes else ()))
        self._dims.append(None if of_state else self.inputs.dims_in(shapes, about.name))
        self._note_constant(None if of_state or origins & VARIES else origins)

    def _read(self, about: _About, read: Sequence[Storage], args: Sequence[Any]) -> int:
        """Origins of what an operation returns."""
        origins = RANDOM if about.is_random else 0
        for storage in read:
            origins |= storage.origins
        for argument in args:
            if argument.__class__ in _NUMBERS:
                origins |= self._origins.of_scalar(argument)
        return origins

    def _note_inputs(self, about: _About, read: Sequence[Any]) -> None:
        """Note what an operation of the forward pass reads that depends on no parameter."""
        for tensor in read:
            # Sparse tensors are no features, and cannot be compared element by element.
            may_be_features = 0 < tensor.dim() <= _MOST_DIMS and tensor.layout is self._strided
            if may_be_features and not self._origins.of(tensor) & STATE:
                self.inputs.add_features(about.name, user_line, tensor)

    def _with_gradients(
        self, name: str, args: Sequence[Any], read: Sequence[Any], origins: int
    ) -> int:
        """Origins of what an operation returns, with those that come from a backward pass."""
        if self._task() >= 0:
            return origins | RECORDED if self._records() else origins & ~(RECORDED | REDUCED)
        if origins & (RECORDED | REDUCED) and self._records():
            self.gradients.note(name, args, read, self._origins.of)
        return origins

    def _note_constant(self, origins: int | None) -> None:
        """Note an operation that may compute a constant, unless the backward pass runs it.

        Args:
            origins: Of its result; None if that is no constant.
        """
        if origins is None or self._task() >= 0:
            self._constants.append(_NO_CONSTANT)
            self._line_of.append(-1)
            return
        line = user_line()
        if line not in self._places:
            self._places[line] = len(self.lines)
            self.lines.append(line)
        self._constants.append(sources_in(origins))
        self._line_of.append(self._places[line])

    def lasting_sources(self) -> LastingSources:
        """The sources of what may be constant, with their values now."""
        used = 0
        for sources in self._constants:
            used |= sources if sources != _NO_CONSTANT else 0
        for found in self.zeros.found:
            used |= max(found.sources, 0)
        return LastingSources(self._origins.sources, used & ~self._origins.varying)

    def fresh_sources(self) -> dict[int, Any]:
        """Fingerprints of what the step has made anew and computed constants from, by place."""
        used = 0
        for sources, (name, shape) in zip(self._constants, self._shapes, strict=True):
            least = _LEAST_MADE if self.names[name] == _MADE else _LEAST_WORK
            if sources > 0 and prod(shape) >= least:
                used |= sources
        used &= ~self._origins.varying
        return {
            place: source.seen
            for place, source in enumerate(self._origins.sources)
            if used >> place & 1 and source.seen is not None and source.ref() is None
        }

    def constant_lines(self, lasting: int) -> list[int]:
        """For each operation whose result is a constant, the index of its line; else -1.

        Args:
            lasting: The sources that are constants, as bits.
        """
        return [
            line if sources != _NO_CONSTANT and not sources & ~lasting else -1
            for sources, line in zip(self._constants, self._line_of, strict=True)
        ]

    def batch_lines(self, lasting: int) -> list[str]:
        """The lines that compute from the batch alone; none if there are too many sources.

        Args:
            lasting: The sources that are constants, as bits.
        """
        sources = self._origins
        return self.of_batch.found(lasting, sources.earlier) if sources.are_all else []

    def paddings(self) -> list[int]:
        """Share of each operation that is padding, per mille."""
        counts = Counter(self._shapes)
        loops = {
            key: round(1000 * self.inputs.loop_share(count, key[1]))
            for key, count in counts.items()
        }
        return [
            loops[key] if dims is None else round(1000 * self.inputs.share(dims))
            for dims, key in zip(self._dims, self._shapes, strict=True)
        ]

    def _describe(self, func: Any) -> _About:
        from torch import Tag

        name = func.name().partition(".")[0]
        if name not in self.names:
            self.names.append(name)
        is_random = Tag.nondeterministic_seeded in func.tags
        return _About(name, self.names.index(name), is_random=is_random)

    def _written(
        self, about: _About, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Sequence[Any]:
        """The tensors that an operation writes into."""
        if about.writes_all:
            return self._tensors((args, *kwargs.values()))
        written = self._tensors(args[:1]) if about.writes_first else []
        if kwargs and "out" in kwargs:
            written += self._tensors((kwargs["out"],))
        return written

    def _tensors(self, values: Iterable[Any]) -> list[Any]:
        """The tensors among arguments or results, and in lists of them.

        Raises:
            StoppedError: One is of a kind whose operations may differ under a mode.
        """
        found = []
        for value in values:
            kind = value.__class__
            if kind in self._plain:
                found.append(value)
            elif kind is list or kind is tuple:
                found += self._tensors(value)
            elif isinstance(value, self._tensor):
                if is_special(value):
                    raise StoppedError("it works with a subclass of tensors")
                self._plain.add(kind)
                found.append(value)
        return found


def _reduced(tensor: Any, origins: int) -> int:
    """Origins of a result, which may be a number that recorded gradients are reduced to."""
    is_number = origins & RECORDED and tensor.numel() <= 1
    return (origins ^ RECORDED) | REDUCED if is_number else origins
