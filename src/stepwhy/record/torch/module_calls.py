"""The module of a model that runs, by the calls of modules which the line clock sees."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stepwhy.record.windows.line_clock import NOWHERE

if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any


class ModuleCalls:
    """Numbers the modules that are called, and keeps them until their names are asked for.

    Attributes:
        code: What runs for as long as a module does; None if this version of PyTorch has none.
        opened: Numbers of the modules that run, outermost first, after `NOWHERE`.
    """

    def __init__(self) -> None:
        from torch.nn import Module

        self.code: CodeType | None = getattr(Module.__call__, "__code__", None)
        self.opened = [NOWHERE]
        self._modules: list[Any] = []
        self._roots: list[Any] = []
        self._numbers: dict[int, int] = {}

    def enter(self, frame: FrameType) -> None:
        """A module is called.

        Args:
            frame: Runs `code`.
        """
        module = frame.f_locals.get("self")
        number = self._numbers.get(id(module))
        if number is None:
            number = self._numbers[id(module)] = len(self._modules)
            self._modules.append(module)
            if len(self.opened) == 1:
                self._roots.append(module)
        self.opened.append(number)

    def leave(self) -> None:
        """The innermost module returns."""
        if len(self.opened) > 1:
            self.opened.pop()

    def names(self) -> dict[int, str]:
        """The modules by their numbers, as PyTorch names them; keeps none of them any longer.

        A part of a model is 'encoder.layer.0', the whole of it has the name of its class. Where
        several models are called, each name begins with the class.
        """
        found: dict[int, str] = {}
        for root in self._roots:
            whole = type(root).__name__
            with contextlib.suppress(Exception):  # a method of the program's own
                for name, module in root.named_modules():
                    inside = f"{whole}.{name}" if len(self._roots) > 1 else name
                    number = self._numbers.get(id(module), NOWHERE)
                    found.setdefault(number, inside if name else whole)
        for number, module in enumerate(self._modules):
            found.setdefault(number, type(module).__name__)
        found.pop(NOWHERE, None)
        self.forget()
        return found

    def forget(self) -> None:
        """Keep no module any longer; numbers begin anew."""
        self._modules, self._roots, self._numbers = [], [], {}
