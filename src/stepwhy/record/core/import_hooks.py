"""Call a function right after a module has been imported, without importing it.

A finder at the front of `sys.meta_path` lets the other finders find the module, and replaces
`exec_module` of its loader for that one call. The loader keeps its type.
"""

from __future__ import annotations

import sys

from stepwhy.record.core.compiled_code import never_compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Hook = Callable[[ModuleType], None]

_pending: dict[str, list[Hook]] = {}


@never_compiled
def _call(hook: Hook, module: ModuleType) -> None:
    """Run a hook; the job must not notice if it fails. Hooks report their failures themselves."""
    try:
        hook(module)
    except Exception:
        return


def _wrap_loader(spec: ModuleSpec, hooks: list[Hook]) -> None:
    """Let the loader call `hooks` once, after it has executed the module."""
    loader = spec.loader
    if loader is None:
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module  # restores the method of the class
        execute(module)
        for hook in hooks:
            _call(hook, module)

    try:
        loader.exec_module = exec_module  # type: ignore[method-assign]
    except AttributeError:
        return  # a loader without instance attributes cannot be wrapped


class _Finder:
    """Finder that lets the others find a module, and wraps its loader."""

    @never_compiled
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hooks = _pending.pop(name, None)
        if hooks is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _wrap_loader(spec, hooks)
                return spec
        return None


_finder = _Finder()


def awaited() -> frozenset[str]:
    """Full names of the modules that hooks wait for."""
    return frozenset(_pending)


def after_import(name: str, hook: Hook) -> None:
    """Call `hook(module)` right after the module of that name has been imported.

    Several hooks of one module are called in the order in which they were added.

    Args:
        name: Full name of the module; nothing is imported here.
        hook: Called once with the module; its exceptions are ignored.
    """
    module = sys.modules.get(name)
    if module is not None:
        _call(hook, module)
        return
    _pending.setdefault(name, []).append(hook)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
