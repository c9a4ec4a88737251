"""Run the tests with the real libraries; without arguments, store how they ended."""

from __future__ import annotations

import datetime as dt
import json
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent
_RESULT = _FOLDER / "result.json"
_REQUIREMENTS = _FOLDER / "requirements.txt"


class Counter:
    """Counts how tests ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] = self.outcomes.get(report.outcome, 0) + 1


def versions() -> dict[str, str]:
    """The tested version of each library."""
    lines = _REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    names = [found[0] for line in lines if (found := re.match(r"[\w.-]+", line))]
    return {name: version(name) for name in sorted([*names, "torch"])}


def main() -> int:
    counter = Counter()
    code = pytest.main(["-q", "-p", "no:cacheprovider", str(_FOLDER), *sys.argv[1:]], [counter])
    if not sys.argv[1:] and counter.outcomes:
        result = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "python": platform.python_version(),
            "versions": versions(),
            **counter.outcomes,
        }
        _RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
