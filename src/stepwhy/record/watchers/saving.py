"""Log calls that save checkpoints, of all frameworks: how long each blocks, and its line.

Only the outermost call counts, as `Model.save` of Keras calls other functions that save, and only
those of the main thread, as others block no step. Where an object of a framework decides when to
save, such as a callback of Keras, the line is that which made the object. A wait for a child
process that saves counts as well (`child_waits`). What an asynchronous save does after its call has
returned is not seen, and blocks nothing.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import struct
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from stepwhy.record.core import import_hooks
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled, wrapper
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import line_of, user_call, user_line
from stepwhy.record.core.wrappers import Builtin, wraps

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

    Call = Callable[..., Any]

_SLOTS = 64
# Process id, nanoseconds, and the name of the longest call.
_SLOT = struct.Struct("=qq48s")

# Shorter calls cost no step anything, and would fill the log.
_SHORTEST_NS = 200_000
# Share of a wait. A child that saves for less of it mostly does something else, such as an
# evaluation; the rest is to start and end the child.
_LEAST_SAVING = 0.1
# Waits for other children that are logged; the limit of all events leaves room for saves.
_MOST_WAITS = 500


class Saver(NamedTuple):
    """A function or method that saves.

    Args:
        path: Its name in the module, with its class.
        name: What reports call it.
    """

    path: str
    name: str


SAVERS: dict[str, tuple[Saver, ...]] = {
    "torch.serialization": (Saver("save", "torch.save"),),
    "torch.distributed.checkpoint.state_dict_saver": (
        Saver("save", "torch.distributed.checkpoint.save"),
        Saver("async_save", "torch.distributed.checkpoint.async_save"),
    ),
    "safetensors.torch": (
        Saver("save_file", "safetensors.torch.save_file"),
        Saver("save_model", "safetensors.torch.save_model"),
    ),
    "tensorflow.python.training.saver": (Saver("Saver.save", "Saver.save"),),
    "tensorflow.python.saved_model.save": (Saver("save", "tf.saved_model.save"),),
    "tensorflow.python.checkpoint.checkpoint": (
        Saver("Checkpoint.save", "Checkpoint.save"),
        Saver("Checkpoint.write", "Checkpoint.write"),
    ),
    "tensorflow.python.checkpoint.checkpoint_management": (
        Saver("CheckpointManager.save", "CheckpointManager.save"),
    ),
    "keras.src.saving.saving_api": (
        Saver("save_model", "Model.save"),
        Saver("save_weights", "Model.save_weights"),
    ),
    "tf_keras.src.saving.saving_api": (
        Saver("save_model", "Model.save"),
        Saver("save_weights", "Model.save_weights"),
    ),
    "orbax.checkpoint.checkpoint_manager": (
        Saver("CheckpointManager.save", "CheckpointManager.save"),
        Saver("CheckpointManager.wait_until_finished", "CheckpointManager.wait_until_finished"),
    ),
    "orbax.checkpoint._src.checkpointers.checkpointer": (
        Saver("Checkpointer.save", "Checkpointer.save"),
    ),
    "orbax.checkpoint._src.checkpointers.async_checkpointer": (
        Saver("AsyncCheckpointer.save", "AsyncCheckpointer.save"),
        Saver("AsyncCheckpointer.wait_until_finished", "AsyncCheckpointer.wait_until_finished"),
    ),
    "flax.training.checkpoints": (Saver("save_checkpoint", "save_checkpoint"),),
}
"""Module of a framework -> what saves in it."""

_PLAIN = {
    "pickle": (Saver("dump", "pickle.dump"),),
    "numpy": (
        Saver("save", "numpy.save"),
        Saver("savez", "numpy.savez"),
        Saver("savez_compressed", "numpy.savez_compressed"),
    ),
}

KEEPERS = ("ModelCheckpoint", "BackupAndRestore", "CheckpointSaverHook")
"""Classes of frameworks whose objects decide when to save."""

# The call that made each of these objects, see `user_call`, and the files of their classes.
_made: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
_files: set[str] = set()


@functools.cache
def log_of(run_dir: str) -> SaveLog:
    """The log of this process."""
    return SaveLog(Recorder(run_dir, "", "", "saving"))


class SaveLog:
    """Log the outermost saving calls of the main thread.

    Args:
        recorder: Writes their events, into the directory that another recorder has opened.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._children = ChildSaves()
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Start over, as in a process in which nothing saves (after a fork)."""
        self._is_saving = self._has_polled = False
        self._waits = 0

    @never_compiled
    def begin(self) -> bool:
        """A saving call, or a wait for a child, begins; whether it is logged."""
        if self._is_saving or threading.get_ident() != threading.main_thread().ident:
            return False
        self._is_saving = self._recorder.alive
        return self._is_saving

    @never_compiled
    def end(self, name: str, start_ns: int) -> None:
        """The call that `begin` let through has ended; never raises."""
        self._is_saving = False
        end_ns = now_ns()
        self._recorder.guard(lambda: self._children.note(name, end_ns - start_ns))
        if end_ns - start_ns >= _SHORTEST_NS:
            self._recorder.guard(lambda: self._log("save", name, start_ns, end_ns))

    @never_compiled
    def waited(self, child: Callable[[], int], start_ns: int) -> None:
        """The wait that `begin` let through has ended; never raises.

        Args:
            child: Returns the id of the process that was waited for; 0 if it has not ended.
            start_ns: When it began.
        """
        self._is_saving = False
        end_ns = now_ns()
        self._recorder.guard(lambda: self._log_wait(child(), start_ns, end_ns))

    def _log_wait(self, child: int, start_ns: int, end_ns: int) -> None:
        if not child:
            self._has_polled = True
            return
        saved, polled, self._has_polled = self._children.take(child), self._has_polled, False
        wait_ns = end_ns - start_ns
        if wait_ns < _SHORTEST_NS:
            # If the program has polled, it may have waited between its polls, or have trained.
            if polled and saved is not None:
                self._log("polled-save", saved.name, end_ns - saved.time_ns, end_ns)
        elif saved is not None and saved.time_ns >= _LEAST_SAVING * wait_ns:
            self._log("save", f"{saved.name} in a child process", start_ns, end_ns)
        elif self._waits < _MOST_WAITS:
            self._waits += 1
            self._log("child", "child process", start_ns, end_ns)

    def _log(self, kind: str, name: str, start_ns: int, end_ns: int) -> None:
        keeper, call = _keeper(sys._getframe(1))
        self._recorder.made(keeper, call)
        source = call[0] or user_line()
        self._recorder.event(kind, name=name, start_ns=start_ns, end_ns=end_ns, source=source)
        self._recorder.write_events()


def _keeper(frame: FrameType) -> tuple[str, tuple[str, str]]:
    """Class and making of the object of a framework that saves; '' if the program does itself."""
    at: FrameType | None = frame
    while at is not None and not line_of(at):
        if at.f_code.co_filename in _files:
            with contextlib.suppress(TypeError):  # not every object can be looked up
                keeper = at.f_locals.get("self")
                if call := _made.get(keeper):
                    return type(keeper).__name__, call
        at = at.f_back
    return "", ("", "")


def observe_keepers(module: ModuleType, _: str) -> None:
    """Note where the program makes objects of `KEEPERS`."""
    for name in KEEPERS:
        kind = getattr(module, name, None)
        if kind is not None:
            _files.add(kind.__init__.__code__.co_filename)
            _note_making(kind)


def _note_making(kind: Any) -> None:
    original = kind.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            _made[self] = user_call(kind.__name__)

    kind.__init__ = init


def observe_saving(module: ModuleType, run_dir: str) -> None:
    """Log the calls of what saves in a module of `SAVERS`, and of `pickle` and NumPy."""
    _wrap(module, SAVERS[module.__name__], log_of(run_dir))
    observe_plain_saving(module, run_dir)


def observe_plain_saving(_: ModuleType, run_dir: str) -> None:
    """Log the calls of `pickle` and NumPy with which programs save their parameters, too."""
    for name in _PLAIN:
        import_hooks.after_import(name, functools.partial(_observe_plain, run_dir))


@functools.cache
def _observe_plain(run_dir: str, module: ModuleType) -> None:
    """Wrap what saves in a module of `_PLAIN`, once."""
    _wrap(module, _PLAIN[module.__name__], log_of(run_dir))


def _wrap(module: ModuleType, savers: tuple[Saver, ...], log: SaveLog) -> None:
    for saver in savers:
        owner, _, attribute = saver.path.rpartition(".")
        place: Any = getattr(module, owner, None) if owner else module
        original = getattr(place, attribute, None)
        if original is not None:  # else another version of the framework
            logged = _logged(original, saver.name, log)
            is_bound = hasattr(original, "__get__")
            found = logged if is_bound else Builtin(logged, module.__name__, attribute)
            setattr(place, attribute, found)


def _logged(original: Call, name: str, log: SaveLog) -> Call:
    @wrapper
    @wraps(original)
    def logged(*args: Any, **kwargs: Any) -> Any:
        if not log.begin():
            return original(*args, **kwargs)
        start_ns = now_ns()
        try:
            return original(*args, **kwargs)
        finally:
            log.end(name, start_ns)

    return logged


class Saved(NamedTuple):
    """What a child has saved.

    Args:
        name: Its last call, as reports name it.
        time_ns: Time of all its calls, ns.
    """

    name: str
    time_ns: int


class ChildSaves:
    """What child processes save, in memory that they share with their parent.

    A fork that writes a checkpoint leaves no process directory, as it sees no step. Its parent
    stalls if it waits for the fork, and then looks up here whether that has saved. Of children
    with the same place, only the later one is known.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SLOTS * _SLOT.size)
        self._parent = os.getpid()

    def note(self, name: str, time_ns: int) -> None:
        """This process has saved; it is noted if it is a fork.

        Args:
            name: What it called.
            time_ns: How long that took.
        """
        pid = os.getpid()
        if pid != self._parent:
            earlier = self._slot(pid)
            total_ns = time_ns + (earlier.time_ns if earlier else 0)
            _SLOT.pack_into(self._page, _place(pid), pid, total_ns, name.encode())

    def take(self, pid: int) -> Saved | None:
        """What a child has saved; None for nothing. Forgets it, as ids are used again."""
        saved = self._slot(pid)
        if saved is not None:
            _SLOT.pack_into(self._page, _place(pid), 0, 0, b"")
        return saved

    def _slot(self, pid: int) -> Saved | None:
        of, time_ns, name = _SLOT.unpack_from(self._page, _place(pid))
        return Saved(name.rstrip(b"\0").decode(errors="replace"), time_ns) if of == pid else None


def _place(pid: int) -> int:
    return pid % _SLOTS * _SLOT.size
