"""The command to start, and the default name of its run directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from stepwhy.base.redaction.commands import redact_command
from stepwhy.record.core.process.ranks import place_by_launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

RUNS_DIR = "stepwhy-runs"
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*(\.exe)?$")


def command_for_script(script: str, args: Sequence[str]) -> list[str]:
    """The command that runs a script under this interpreter, as `python script args` would.

    Args:
        script: Path of the script.
        args: Its arguments.
    """
    return [sys.executable, script, *args]


def run_name(command: Sequence[str]) -> str:
    """A short name for a command: the script's stem, the module, or the program.

    Example: `['python', '-m', 'pkg.train', '--lr', '1']` is 'pkg.train'.
    """
    words = [Path(word).name for word in redact_command(command)]
    if words and _INTERPRETER.fullmatch(words[0]):
        words = words[1:]
    if "-m" in words[:-1]:
        name = words[words.index("-m") + 1]
    else:
        name = next((word for word in words if word and not word.startswith("-")), "run")
        name = name.removesuffix(".py")
    return re.sub(r"[^\w.\-]+", "-", name)[:40].strip(".-") or "run"


def default_run_dir(command: Sequence[str], now: datetime) -> Path:
    """The default run directory: `stepwhy-runs/<time>-<name>`, relative.

    Args:
        command: The command that will run.
        now: Time for the name, to the second.
    """
    return Path(RUNS_DIR) / f"{now:%Y%m%d-%H%M%S}-{run_name(command)}"


def of_rank(run_dir: Path, environ: Mapping[str, str]) -> tuple[Path, int]:
    """The run directory of this rank, where a launcher starts one command per rank.

    Args:
        run_dir: The directory of the whole run.
        environ: The environment.

    Returns:
        `run_dir/rank-<n>` and the rank; the directory itself and 0 for the only process.
    """
    rank, size = place_by_launcher(environ)
    return (run_dir, 0) if rank is None or size in {None, 1} else (run_dir / f"rank-{rank}", rank)
