"""Run the tests of the page; without arguments, store how they ended."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

_RESULT = Path(__file__).with_name("result.json")


class Counter:
    """Counts how tests ended."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] = self.outcomes.get(report.outcome, 0) + 1


def chromium() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    words = [path, "--version"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    counter = Counter()
    folder = str(Path(__file__).parent)
    code = pytest.main(["-q", "-p", "no:cacheprovider", folder, *sys.argv[1:]], [counter])
    if not sys.argv[1:] and counter.outcomes:
        result = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "browser": chromium(),
            "playwright": version("playwright"),
            **counter.outcomes,
        }
        _RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
