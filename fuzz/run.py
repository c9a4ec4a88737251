"""Damage valid files of every format, explain them, and keep what breaks a promise.

    python fuzz/run.py [--inputs N] [--jobs N] [--format NAME]... [--seconds N] [--json FILE]

Inputs are numbered, and equal for equal seeds: a failure prints the command that makes it again.
Seeds are generated; where STEPWHY_TRACES names a folder of recorded traces, short versions of those
are seeds, too. Counts are written every minute, and when the run ends or is stopped with Ctrl-C or
SIGTERM. `fuzz/counts.py` adds up those of several runs. Exits with 1 when an input failed.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from fuzz.campaign import Campaign, batches  # noqa: E402
from fuzz.counts import run_of, write  # noqa: E402
from fuzz.formats import BY_NAME  # noqa: E402
from fuzz.targets import TARGETS  # noqa: E402

if TYPE_CHECKING:
    from fuzz.tally import Tally


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, over all formats")
    parser.add_argument("--jobs", type=int, default=1, help="processes that judge")
    parser.add_argument(
        "--format",
        action="append",
        choices=[*BY_NAME, *TARGETS],
        help="a format or a target; default: all of them",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--seed", type=int, default=1, help="other inputs for another number")
    parser.add_argument("--first", type=int, default=0, help="number of each format's first input")
    parser.add_argument("--keep", type=Path, help="folder for what fails; default: a temporary one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write counts and versions")
    return parser.parse_args()


def main() -> int:
    """Run what the command line asks for; the exit status."""
    given = _arguments()
    # Importers that have kernels are to be tried with them.
    subprocess.run([sys.executable, "-m", "stepwhy.base.columns.compile"], check=False)
    formats = given.format or [*BY_NAME, *TARGETS]
    each = -(-given.inputs // len(formats))
    keep = given.keep or Path(tempfile.mkdtemp(prefix="stepwhy-fuzz-"))
    campaign = Campaign(keep, partial(_write, given))
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: campaign.end())
    campaign.run(batches(formats, given.seed, given.first, each), given.jobs, given.seconds)
    campaign.make_small()
    for name, tally in campaign.tallies.items():
        print(tally.line(name))
    return int(any(tally.failed for tally in campaign.tallies.values()))


def _write(given: argparse.Namespace, tallies: dict[str, Tally]) -> None:
    if given.json is not None:
        write([run_of(tallies, given.seed, given.first)], given.json)


if __name__ == "__main__":
    sys.exit(main())
