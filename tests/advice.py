"""The advice of all diagnoses, from the Markdown files beside their modules."""

from pathlib import Path

import stepwhy
from stepwhy.diagnose.shared.advice import fixes_of

PACKAGE = Path(stepwhy.__file__).parent
FILES = sorted((PACKAGE / "diagnose").rglob("*.md"))


def module_of(path):
    """Name of the module that a file of advice is beside."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


FIXES = {
    (path.stem, name): fix for path in FILES for name, fix in fixes_of(module_of(path)).items()
}
"""Fixes by the last part of the module's name and their own."""

CODE = {key: fix.code for key, fix in FIXES.items() if fix.code}
