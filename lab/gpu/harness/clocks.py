"""Sample clocks, power, temperature and the reasons of reduced clocks beside the measurements."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from children import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVERY_MS = 500
# The reasons have another name before driver 535; some cards know neither.
_COMMON = "clocks.sm,power.draw,temperature.gpu"
_QUERIES = (
    f"{_COMMON},clocks_event_reasons.active",
    f"{_COMMON},clocks_throttle_reasons.active",
    _COMMON,
)
# Source: NVML API Reference Guide, nvmlClocksEventReasons. An idle GPU is not held back.
_REASONS = {
    0x2: "clocks set by an application", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "temperature", 0x40: "hardware temperature", 0x80: "power brake",
    0x100: "display clocks",
}  # fmt: skip
_LIMIT_S = 20.0


def gpu_id() -> str:
    """The first visible GPU, as nvidia-smi takes it."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    return first or "0"


def query(fields: str) -> str:
    """What nvidia-smi says about the first visible GPU; '' if it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(_words(program, fields), capture_output=True, text=True,
                              check=False, timeout=_LIMIT_S)  # fmt: skip
        return done.stdout if not done.returncode else ""
    return ""


class Clocks:
    """Reads the clocks in the background while it is open."""

    def __init__(self) -> None:
        self.missing = ""
        self._samples: list[tuple[float, list[str]]] = []
        self._child: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()

    def __enter__(self) -> Self:
        program = shutil.which("nvidia-smi")
        fields = next((each for each in _QUERIES if query(each).strip()), "")
        if program is None or not fields:
            self.missing = "nvidia-smi is missing" if program is None else "nvidia-smi fails"
            return self
        by_line = shutil.which("stdbuf")  # each sample counts when it arrives
        self._child = subprocess.Popen(
            [*([by_line, "-oL"] if by_line else []), *_words(program, fields),
             f"--loop-ms={_EVERY_MS}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - started before any thread
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._child,), daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(5)
            self._reader.join(5)

    def _read(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                words = [word.strip() for word in line.split(",")]
                self._samples.append((time.monotonic(), words))

    def since(self, started: float) -> dict[str, Any]:
        """What was sampled since then.

        Args:
            started: A time of `time.monotonic`.
        """
        samples = [words for at, words in self._samples if at >= started]
        if not samples:
            return {"samples": 0, "missing": self.missing or "too short to be sampled"}
        found: dict[str, Any] = {"samples": len(samples), "missing": ""}
        for number, name in enumerate(("sm_mhz", "power_w", "temperature_c")):
            values = [value for words in samples if (value := _number(words, number)) is not None]
            if values:
                found[name] = [min(values), statistics.median(values), max(values)]
        masks = [words[3] for words in samples if len(words) > 3]
        found["reasons"] = _reasons(masks)
        return found


def _words(program: str, fields: str) -> list[str]:
    return [program, f"--id={gpu_id()}", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]


def _number(words: Sequence[str], number: int) -> float | None:
    try:
        return float(words[number])
    except (IndexError, ValueError):  # such as [N/A]
        return None


def _reasons(masks: Sequence[str]) -> dict[str, float] | None:
    """Share of the samples in which each reason held; None if the driver does not say."""
    known = []
    for mask in masks:
        with suppress(ValueError):
            known.append(int(mask, 16))
    if not known:
        return None
    shares = {name: sum(bool(mask & bit) for mask in known) / len(known)
              for bit, name in _REASONS.items()}  # fmt: skip
    return {name: round(share, 3) for name, share in shares.items() if share}
